{{- /*
The rules of the ClusterRole fettle without the rules that no running dialect or remediator uses. Takes a list of the
rules and the root; the result is a YAML object with the key rules.
*/ -}}
{{- define "fettle.rules" -}}
{{- $values := (index . 1).Values -}}
{{- $openshift := has "openshift" $values.dialects -}}
{{- $nhc := has "nhc" $values.dialects -}}
{{- $deletion := has "machine-deletion" $values.remediators -}}
{{- $power := has "power" $values.remediators -}}
{{- $selfFence := has "self-fence" $values.remediators -}}
{{- $needed := dict
  "machine.openshift.io/machinehealthchecks" $openshift
  "machine.openshift.io/machinehealthchecks/status" $openshift
  "machine.openshift.io/machines" (or $openshift $nhc $deletion $power $selfFence)
  "machine.openshift.io/machinesets" (or $openshift $deletion)
  "fettle.io/machinedeletionremediations" $deletion
  "fettle.io/machinedeletionremediations/status" $deletion
  "fettle.io/powerremediations" $power
  "fettle.io/powerremediations/status" $power
  "fettle.io/bmcs" $power
  "fettle.io/bmcs/status" $power
  "authorization.k8s.io/selfsubjectaccessreviews" $power
  "fettle.io/selffenceremediations" $selfFence
  "fettle.io/fencepolicies" (or $power $selfFence)
  "fettle.io/selffenceremediations/status" $selfFence
  "remediation.medik8s.io/nodehealthchecks" $nhc
  "remediation.medik8s.io/nodehealthchecks/status" $nhc
-}}
{{- $rules := list -}}
{{- range $rule := index . 0 -}}
{{- $group := first $rule.apiGroups -}}
{{- $resources := list -}}
{{- range $resource := $rule.resources -}}
{{- $key := printf "%s/%s" $group $resource -}}
{{- if or (not (hasKey $needed $key)) (get $needed $key) -}}
{{- $resources = append $resources $resource -}}
{{- end -}}
{{- end -}}
{{- $verbs := $rule.verbs -}}
{{- if or (and (eq $group "") (has "nodes" $resources) (not $nhc) (not $power) (not $selfFence)) (and (has "machines" $resources) (not $openshift) (not $power) (not $selfFence)) -}}
{{- $verbs = without $verbs "patch" -}}
{{- end -}}
{{- if and (has "machines" $resources) (not $openshift) (not $deletion) (not $power) -}}
{{- $verbs = without $verbs "delete" -}}
{{- end -}}
{{- if and (has "machinesets" $resources) (not $openshift) -}}
{{- $verbs = without $verbs "list" "watch" -}}
{{- end -}}
{{- if $resources -}}
{{- $rules = append $rules (merge (dict "resources" $resources "verbs" $verbs) $rule) -}}
{{- end -}}
{{- end -}}
{{- /* Each remediator that condemns nodes looks whether the remediation of another condemnation exists. */ -}}
{{- if ne $power $selfFence -}}
{{- $rules = append $rules (dict "apiGroups" (list "fettle.io") "resources" (list (ternary "selffenceremediations" "powerremediations" $power)) "verbs" (list "list")) -}}
{{- end -}}
{{- toYaml (dict "rules" $rules) -}}
{{- end }}
