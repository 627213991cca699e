package promiselease

import (
	"maps"
	"math"
	"net/netip"
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
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: node, ResourceVersion: numberText(r.Revision), Annotations: r.text()},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(r.Promise.Boot), RenewTime: new(metav1.NewMicroTime(renewed.UTC()))},
	}
	if v := r.Promise.Times.Validity; v > 0 {
		l.Spec.LeaseDurationSeconds = new(int32(math.Ceil(v.Seconds())))
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

// parse returns what annotations say. A text that can't be read leaves a record with another text, which compare finds.
func parse(a map[string]string) Record {
	var r Record
	r.State, r.By, r.Device = selffence.State(a[annotation.PromiseState]), a[annotation.CondemnedBy], a[annotation.PromiseDevice]
	r.Why = NoPromise(a[annotation.NoPromiseReason])
	r.Promise.Boot, r.Promise.Timed = a[annotation.PromiseBoot], a[annotation.PromiseTimed] == "true"
	r.Promise.Times.Validity, _ = time.ParseDuration(a[annotation.PromiseValidity])
	r.Promise.Times.Watchdog, _ = time.ParseDuration(a[annotation.PromiseWatchdog])
	rest := a[annotation.PromiseWitnesses]
	for i := range r.Promise.Witnesses {
		r.Promise.Witnesses[i], rest, _ = strings.Cut(rest, ",")
	}
	r.Witnessed, _ = number(a[annotation.Witnessed])
	r.Address, _ = netip.ParseAddrPort(a[annotation.AgentAddress])
	return r
}

// text returns the annotations that say a record.
func (r Record) text() map[string]string {
	p := r.Promise
	a := map[string]string{
		annotation.PromiseState: string(r.State), annotation.PromiseBoot: p.Boot, annotation.PromiseTimed: strconv.FormatBool(p.Timed),
		annotation.PromiseValidity: durationText(p.Times.Validity), annotation.PromiseWatchdog: durationText(p.Times.Watchdog),
		annotation.PromiseDevice: r.Device, annotation.PromiseWitnesses: strings.Join(namesOf(p.Witnesses), ","),
		annotation.CondemnedBy: r.By, annotation.Witnessed: numberText(r.Witnessed), annotation.AgentAddress: addressText(r.Address),
		annotation.NoPromiseReason: string(r.Why),
	}
	maps.DeleteFunc(a, func(_, value string) bool { return value == "" })
	return a
}

// compare returns an error if the annotations of the group fettle.io are not the text of a record.
func compare(a, text map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(a)) {
		if value, is := text[key]; strings.HasPrefix(key, "fettle.io/") && (!is || value != a[key]) {
			return Error{reasonOf(key)}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(text)) {
		if _, has := a[key]; !has {
			return Error{reasonOf(key)}
		}
	}
	return nil
}

// reasonOf returns why a Lease with another text of an annotation can't be decoded.
func reasonOf(key string) Reason {
	switch key {
	case annotation.PromiseTimed:
		return Timed
	case annotation.PromiseValidity, annotation.PromiseWatchdog:
		return Times
	case annotation.PromiseDevice:
		return Device
	case annotation.PromiseWitnesses:
		return Witnesses
	case annotation.CondemnedBy:
		return Condemner
	case annotation.NoPromiseReason:
		return Why
	case annotation.Witnessed:
		return Read
	case annotation.AgentAddress:
		return Address
	}
	return Unknown
}

// number returns the number above zero that a text says in its usual form.
func number(s string) (uint64, bool) {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n, s != "" && numberText(n) == s
}

// numberText returns the text of a number, which is empty for zero.
func numberText(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// addressText returns the text of an address, which is empty for none.
func addressText(a netip.AddrPort) string {
	if a == (netip.AddrPort{}) {
		return ""
	}
	return a.String()
}

// durationText returns the text of a duration, which is empty for zero.
func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
