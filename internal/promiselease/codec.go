package promiselease

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/selffence"
)

// Decode returns what a Lease says.
func Decode(l *coordinationv1.Lease) (Record, error) {
	revision, is := number(l.ResourceVersion)
	if !is {
		return Record{}, Error{Revision}
	}
	r := parse(l.Annotations)
	if err := r.check(); err != nil {
		return Record{}, err
	}
	if err := compare(l.Annotations, r.text()); err != nil {
		return Record{}, err
	}
	r.Revision = revision
	return r, nil
}

// Encode returns the Lease of a node that says a record. A write of it fails if the stored Lease has another revision. A record without a
// revision is for a Lease that doesn't exist yet. Renewed is what the Lease shows to people.
func Encode(node string, r Record, renewed time.Time) (*coordinationv1.Lease, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: node, Annotations: r.text()},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(r.Promise.Boot), RenewTime: new(metav1.NewMicroTime(renewed.UTC()))},
	}
	if r.Revision > 0 {
		l.ResourceVersion = strconv.FormatUint(r.Revision, 10)
	}
	if v := r.Promise.Times.Validity; v > 0 {
		l.Spec.LeaseDurationSeconds = new(int32((v + time.Second - 1) / time.Second))
	}
	return l, nil
}

// Condemn returns the Lease to write in place of a Lease with a promise, for the remediation with a UID.
func Condemn(l *coordinationv1.Lease, by string) (*coordinationv1.Lease, error) {
	return change(l, selffence.Promised, selffence.Condemned, by)
}

// Free returns the Lease to write in place of a condemned Lease once its remediation is over.
func Free(l *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return change(l, selffence.Condemned, selffence.Withdrawn, "")
}

// change returns a Lease in another state, and otherwise as it was.
func change(l *coordinationv1.Lease, from, to selffence.State, by string) (*coordinationv1.Lease, error) {
	r, err := Decode(l)
	if err != nil {
		return nil, err
	}
	if r.State != from {
		return nil, Error{Change}
	}
	r.State, r.By = to, by
	if err := r.check(); err != nil {
		return nil, err
	}
	l = l.DeepCopy()
	delete(l.Annotations, annotation.CondemnedBy)
	maps.Copy(l.Annotations, r.text())
	return l, nil
}

// parse returns what annotations say. A text that can't be read is left out: compare then finds that the record has another text.
func parse(a map[string]string) Record {
	var r Record
	r.State, r.By, r.Device = selffence.State(a[annotation.PromiseState]), a[annotation.CondemnedBy], a[annotation.PromiseDevice]
	r.Promise.Boot, r.Promise.Timed = a[annotation.PromiseBoot], a[annotation.PromiseTimed] == "true"
	r.Promise.Times.Validity = duration(a[annotation.PromiseValidity])
	r.Promise.Times.Watchdog = duration(a[annotation.PromiseWatchdog])
	copy(r.Promise.Witnesses[:], strings.SplitN(a[annotation.PromiseWitnesses], ",", len(r.Promise.Witnesses)+1))
	r.Witnessed, _ = number(a[annotation.Witnessed])
	return r
}

// text returns the annotations that say a record.
func (r Record) text() map[string]string {
	a := map[string]string{
		annotation.PromiseState: string(r.State), annotation.PromiseBoot: r.Promise.Boot, annotation.PromiseTimed: strconv.FormatBool(r.Promise.Timed),
	}
	set := func(key, value string, is bool) {
		if is {
			a[key] = value
		}
	}
	t, names := r.Promise.Times, namesOf(r.Promise.Witnesses)
	set(annotation.PromiseValidity, t.Validity.String(), t.Validity != 0)
	set(annotation.PromiseWatchdog, t.Watchdog.String(), t.Watchdog != 0)
	set(annotation.PromiseDevice, r.Device, r.Device != "")
	set(annotation.PromiseWitnesses, strings.Join(names, ","), len(names) > 0)
	set(annotation.CondemnedBy, r.By, r.By != "")
	set(annotation.Witnessed, strconv.FormatUint(r.Witnessed, 10), r.Witnessed != 0)
	return a
}

// compare returns an error if the annotations of the group fettle.io are not the text of a record.
func compare(a, text map[string]string) error {
	for key := range a {
		if strings.HasPrefix(key, "fettle.io/") && !slices.ContainsFunc(fields(), func(f field) bool { return f.key == key }) {
			return Error{Unknown}
		}
	}
	for _, f := range fields() {
		got, has := a[f.key]
		if want, is := text[f.key]; got != want || has != is {
			return Error{f.reason}
		}
	}
	return nil
}

// field is an annotation of a promise.
type field struct {
	key string
	// reason is why a Lease with another text of the annotation can't be decoded.
	reason Reason
}

// fields returns all annotations of a promise.
func fields() []field {
	return []field{
		{annotation.PromiseState, State},
		{annotation.PromiseBoot, Boot},
		{annotation.PromiseTimed, Timed},
		{annotation.PromiseValidity, Times},
		{annotation.PromiseWatchdog, Times},
		{annotation.PromiseDevice, Device},
		{annotation.PromiseWitnesses, Witnesses},
		{annotation.CondemnedBy, Condemner},
		{annotation.Witnessed, Read},
	}
}

// number returns the number above zero that a text says in its usual form.
func number(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil && n > 0 && strconv.FormatUint(n, 10) == s
}

// duration returns the duration that a text says, or zero.
func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return d
}
