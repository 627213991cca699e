{{- /* The image, by its digest where that is given. There is no default: no public image of Fettle exists. */ -}}
{{- define "fettle.image" -}}
{{- $repository := required "image.repository is empty, and no public image of Fettle exists: build one with `make release VERSION=TAG IMAGE=REPOSITORY`, push it, and set image.repository and image.digest (docs/install.md#the-image)" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}
