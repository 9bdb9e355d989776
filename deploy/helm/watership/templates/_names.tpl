{{- define "watership.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{- /* 40 characters, so that names of deployments can be appended. */ -}}
{{- define "watership.fullname" -}}
{{- $name := include "watership.name" . -}}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $both .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "watership.selector" -}}
app.kubernetes.io/name: {{ include "watership.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "watership.metadata" -}}
name: {{ include "watership.fullname" . }}
labels:
  {{- include "watership.labels" . | nindent 2 }}
{{- end }}

{{- define "watership.labels" -}}
{{ include "watership.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "watership.serviceAccount" -}}
{{- default (ternary (include "watership.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end }}

{{- define "watership.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* HTTPS where the configuration has a certificate of the HTTP server. */ -}}
{{- define "watership.scheme" -}}
{{- $http := default dict (get .Values.config "http") -}}
{{- $tls := default dict (get $http "tls") -}}
{{- ternary "HTTPS" "HTTP" (not (empty (get $tls "cert"))) -}}
{{- end }}
