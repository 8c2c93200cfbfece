{{- define "impart.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Labels that select the pods of a role; call with (list . "gateway"). */}}
{{- define "impart.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: impart
app.kubernetes.io/instance: {{ $top.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "impart.labels" -}}
{{- $top := index . 0 -}}
{{ include "impart.selector" . }}
app.kubernetes.io/part-of: impart
app.kubernetes.io/version: {{ $top.Values.image.tag | default $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* What a pod of any role may do: nothing. */}}
{{- define "impart.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "impart.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Settings of both roles; call with (list . "gateway"). */}}
{{- define "impart.env" -}}
{{- $top := index . 0 -}}
{{- $role := index . 1 -}}
{{- $own := index $top.Values $role -}}
- name: IM_GATEWAY_ID
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: IM_LISTEN
  value: ":8080"
- name: IM_LOG_FORMAT
  value: json
- name: IM_BUS
  value: {{ $top.Values.bus | quote }}
# Port 8080 is in plain text: TLS ends at the ingress or the balancer.
- name: IM_ALLOW_PLAINTEXT
  value: "true"
{{- if $top.Values.hop.tlsSecretName }}
- name: IM_LOGIC_TLS_CERT
  value: /etc/impart/hop/tls.crt
- name: IM_LOGIC_TLS_KEY
  value: /etc/impart/hop/tls.key
- name: IM_LOGIC_TLS_CA
  value: /etc/impart/hop/ca.crt
{{- else if not $top.Values.hop.plaintext }}
{{- fail "hop.tlsSecretName should name a secret with tls.crt, tls.key and ca.crt, or hop.plaintext be true where the network itself keeps others away" }}
{{- end }}
{{- range $name, $value := mergeOverwrite (deepCopy $top.Values.env) $own.env }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}

{{- define "impart.hopMount" -}}
{{- if .Values.hop.tlsSecretName }}
volumeMounts:
  - name: hop
    mountPath: /etc/impart/hop
    readOnly: true
{{- end }}
{{- end }}

{{- define "impart.hopVolume" -}}
{{- if .Values.hop.tlsSecretName }}
volumes:
  - name: hop
    secret:
      secretName: {{ .Values.hop.tlsSecretName }}
      defaultMode: 0440
{{- end }}
{{- end }}

{{- define "impart.probes" -}}
# A node that waits for its database answers nothing yet: it may take a minute.
startupProbe:
  httpGet: { path: /livez, port: http }
  periodSeconds: 2
  timeoutSeconds: 2
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /livez, port: http }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: http }
  periodSeconds: 3
  timeoutSeconds: 3
  failureThreshold: 2
{{- end }}

{{/* Spread over machines and zones; call with (list . "gateway"). */}}
{{- define "impart.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "impart.selector" . | nindent 8 }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "impart.selector" . | nindent 8 }}
{{- end }}

{{- define "impart.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
