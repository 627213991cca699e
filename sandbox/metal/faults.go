package metal

import (
	"bytes"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/sandbox/ipmi"
	"github.com/fettle-io/fettle/sandbox/redfish"
)

// order is what AnnotationFaults has. The fields are those of redfish.Faults and ipmi.Faults.
type order struct {
	SaysOff          bool            `json:"saysOff"`
	Lag              metav1.Duration `json:"lag"`
	StaysPoweringOff bool            `json:"staysPoweringOff"`
	IgnoresCommands  bool            `json:"ignoresCommands"`
	RefusesCommands  int             `json:"refusesCommands"`
	AlreadyOff       int             `json:"alreadyOff"`
	RequiresIfMatch  bool            `json:"requiresIfMatch"`

	Resets     []redfish.ResetType `json:"resets"`
	ActionInfo bool                `json:"actionInfo"`

	RefusesSameState bool `json:"refusesSameState"` // by IPMI

	NoSessionLeft bool            `json:"noSessionLeft"`
	NoBasic       bool            `json:"noBasic"`
	Unauthorized  bool            `json:"unauthorized"`
	LockoutAfter  int             `json:"lockoutAfter"`
	LockoutFor    metav1.Duration `json:"lockoutFor"`
	SessionUses   int             `json:"sessionUses"`

	Certificate bool   `json:"certificate"` // true: another one, which is new
	Drops       bool   `json:"drops"`
	Hangs       bool   `json:"hangs"`
	Redirect    string `json:"redirect"`
	Oversized   int    `json:"oversized"`
	NotJSON     bool   `json:"notJSON"`
	Path        string `json:"path"`
}

// parseFaults returns the ordered faults. An empty order is a BMC without fault.
func parseFaults(text string) (redfish.Faults, ipmi.Faults, error) {
	if text == "" {
		return redfish.Faults{}, ipmi.Faults{}, nil
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	o := order{}
	if err := decoder.Decode(&o); err != nil {
		return redfish.Faults{}, ipmi.Faults{}, fmt.Errorf("parsing the faults: %w", err)
	}
	faults, err := o.faults()
	return faults, ipmi.Faults{RefusesSameState: o.RefusesSameState, IgnoresCommands: o.IgnoresCommands, SaysOff: o.SaysOff, Hangs: o.Hangs}, err
}

func (o order) faults() (redfish.Faults, error) {
	f := redfish.Faults{
		SaysOff:          o.SaysOff,
		Lag:              o.Lag.Duration,
		StaysPoweringOff: o.StaysPoweringOff,
		IgnoresCommands:  o.IgnoresCommands,
		RefusesCommands:  o.RefusesCommands,
		AlreadyOff:       o.AlreadyOff,
		RequiresIfMatch:  o.RequiresIfMatch,
		Resets:           o.Resets,
		ActionInfo:       o.ActionInfo,
		NoSessionLeft:    o.NoSessionLeft,
		NoBasic:          o.NoBasic,
		Unauthorized:     o.Unauthorized,
		LockoutAfter:     o.LockoutAfter,
		LockoutFor:       o.LockoutFor.Duration,
		SessionUses:      o.SessionUses,
		Drops:            o.Drops,
		Hangs:            o.Hangs,
		Redirect:         o.Redirect,
		Oversized:        o.Oversized,
		NotJSON:          o.NotJSON,
		Path:             o.Path,
	}
	if o.Certificate {
		other, err := redfish.NewCertificate("127.0.0.1")
		if err != nil {
			return redfish.Faults{}, err
		}
		f.Certificate = &other
	}
	return f, nil
}
