{{- /* What setup and serve have in common. */ -}}
{{- define "watership.container" -}}
{{- with .root -}}
image: {{ include "watership.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
env:
  - name: WATERSHIP_CONFIG
    value: /etc/watership/watership.yaml
  - name: WATERSHIP_HTTP_LISTEN
    value: ":8181"
  {{- with $.roles }}
  - name: WATERSHIP_ROLES
    value: {{ join "," . }}
  {{- end }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
resources:
  {{- toYaml (mergeOverwrite (deepCopy .Values.resources) (default dict $.resources)) | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
volumeMounts:
  - name: config
    mountPath: /etc/watership
  {{- if .Values.existingSecrets }}
  - name: secrets
    mountPath: /run/secrets/watership
    readOnly: true
  {{- end }}
  {{- with .Values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
{{- end }}
