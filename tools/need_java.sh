#!/usr/bin/env bash
# Checks for a Java that Spark supports (17 or newer). If there is none, prints which package to install and exits with 2.
# Uses the same java as Spark: $JAVA_HOME/bin/java, otherwise java on the PATH.
set -u

java="java"
if [ -n "${JAVA_HOME:-}" ]; then java="$JAVA_HOME/bin/java"; fi

advice() {
    cat >&2 <<TEXT
penstock: $1
Spark needs Java 17 or newer. Install it first, then run the same command again:
  Debian, Ubuntu:  apt-get install openjdk-17-jre-headless
  Fedora, RHEL:    dnf install java-17-openjdk-headless
  macOS:           brew install openjdk@17   (and set JAVA_HOME as it says)
TEXT
    exit 2
}

if ! command -v "$java" >/dev/null 2>&1; then
    if [ -n "${JAVA_HOME:-}" ]; then advice "JAVA_HOME is '$JAVA_HOME', but there is no bin/java in it."; fi
    advice "Java is missing: no 'java' on the PATH, and JAVA_HOME is not set."
fi
text=$("$java" -version 2>&1) || advice "'$java -version' failed: ${text%%$'\n'*}"
version=$(printf '%s\n' "$text" | sed -n 's/.*version "\([0-9.]*\).*/\1/p' | head -n 1)
major=${version%%.*}
if [ "$major" = "1" ]; then major=$(printf '%s' "$version" | cut -d. -f2); fi
case "$major" in
    '' | *[!0-9]*) advice "cannot parse the version of '$java' from: ${text%%$'\n'*}" ;;
esac
if [ "$major" -lt 17 ]; then advice "'$java' is Java $version."; fi
