{{- define "fettle.labels" -}}
app.kubernetes.io/name: fettle
app.kubernetes.io/part-of: fettle
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "fettle.selector" -}}
app.kubernetes.io/name: fettle
app.kubernetes.io/component: controller
{{- end }}

{{- /* Adds the chart's labels to an object of config/. Takes a list of the object and the root. */ -}}
{{- define "fettle.labelled" -}}
{{- $object := index . 0 -}}
{{- $labels := merge (include "fettle.labels" (index . 1) | fromYaml) ($object.metadata.labels | default dict) -}}
{{- $_ := set $object.metadata "labels" $labels -}}
{{- toYaml $object -}}
{{- end }}
