{{- define "penstock.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 53 | trimSuffix "-" -}}
{{- end -}}

{{- define "penstock.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains (include "penstock.name" .) .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "penstock.name" .) | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "penstock.selectors" -}}
app.kubernetes.io/name: {{ include "penstock.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "penstock.labels" -}}
{{ include "penstock.selectors" . }}
app.kubernetes.io/component: enumerator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "penstock.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "penstock.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "penstock.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{- define "penstock.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "penstock.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- /* The configuration file: the chart's own keys override `config`. */ -}}
{{- define "penstock.configuration" -}}
{{- $own := dict
    "listen" (printf "0.0.0.0:%d" (int .Values.service.port))
    "healthListen" (printf "0.0.0.0:%d" (int .Values.healthPort))
    "metricsListen" (printf "0.0.0.0:%d" (int .Values.metrics.port))
    "state" "/var/lib/penstock/state"
    "drainMs" .Values.drainMs
    "graceMs" .Values.graceMs
    "tables" .Values.tables -}}
{{- $tls := dict -}}
{{- if .Values.tls.existingSecret -}}
{{- $tls = dict "cert" "/etc/penstock/tls/tls.crt" "key" "/etc/penstock/tls/tls.key" -}}
{{- if .Values.tls.clientCa -}}
{{- $_ := set $tls "clientCa" "/etc/penstock/tls/ca.crt" -}}
{{- end -}}
{{- if .Values.tls.allowedSans -}}
{{- $_ := set $tls "allowedSans" .Values.tls.allowedSans -}}
{{- end -}}
{{- else -}}
{{- $_ := set $tls "insecure" .Values.tls.insecure -}}
{{- end -}}
{{- $_ := set $own "tls" $tls -}}
{{- if .Values.auth.existingSecret -}}
{{- $_ := set $own "tokens" (printf "/etc/penstock/auth/%s" .Values.auth.key) -}}
{{- end -}}
{{- if .Values.acl -}}
{{- $_ := set $own "acl" .Values.acl -}}
{{- end -}}
{{- toToml (merge $own (deepCopy .Values.config)) -}}
{{- end -}}
