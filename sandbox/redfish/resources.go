package redfish

import (
	"fmt"
	"net/http"
	"slices"
)

const (
	root           = "/redfish/v1"
	systems        = root + "/Systems"
	managers       = root + "/Managers"
	chassis        = root + "/Chassis"
	sessionService = root + "/SessionService"
	sessionList    = sessionService + "/Sessions"
	resetAction    = "/Actions/ComputerSystem.Reset"
	resetInfo      = "/ResetActionInfo"
)

type object map[string]any

// answer is what the BMC answers. A nil body is none.
type answer struct {
	status int
	header map[string]string
	body   object
}

func refusal(status int, id, message string) answer {
	return answer{status: status, body: object{"error": object{
		"code":    id,
		"message": message,
		"@Message.ExtendedInfo": []object{{
			"@odata.type": "#Message.v1_1_1.Message",
			"MessageId":   id,
			"Message":     message,
			"Severity":    "Critical",
			"Resolution":  "None.",
		}},
	}}}
}

func unauthorized() answer {
	a := refusal(http.StatusUnauthorized, "Base.1.8.InsufficientPrivilege", "The credentials are missing or refused.")
	a.header = map[string]string{"WWW-Authenticate": `Basic realm="BMC"`}
	return a
}

func noSessionLeft() answer {
	return refusal(http.StatusServiceUnavailable, "IDRAC.2.8.RAC0218", "The maximum number of user sessions is reached.")
}

func notFound() answer {
	return refusal(http.StatusNotFound, "Base.1.8.ResourceMissingAtURI", "There is no such resource.")
}

func link(path string) object { return object{"@odata.id": path} }

func links(paths ...string) []object {
	members := []object{}
	for _, path := range slices.Sorted(slices.Values(paths)) {
		members = append(members, link(path))
	}
	return members
}

func resource(path, kind, id, name string) object {
	return object{"@odata.id": path, "@odata.type": kind, "Id": id, "Name": name}
}

func collection(path, kind string, members ...string) object {
	return object{
		"@odata.id":           path,
		"@odata.type":         fmt.Sprintf("#%sCollection.%[1]sCollection", kind),
		"Name":                kind + " Collection",
		"Members":             links(members...),
		"Members@odata.count": len(members),
	}
}

// get returns the resource at a path, or nil.
func (b *BMC) get(path string) object {
	switch path {
	case root:
		return b.rootResource()
	case systems:
		return collection(path, "ComputerSystem", b.SystemPath())
	case b.SystemPath():
		return b.systemResource()
	case b.SystemPath() + resetInfo:
		return b.resetInfoResource()
	case managers:
		return collection(path, "Manager", managers+"/BMC")
	case managers + "/BMC":
		return b.managerResource()
	case chassis:
		return collection(path, "Chassis", chassis+"/1")
	case chassis + "/1":
		return b.chassisResource()
	case sessionService:
		o := resource(path, "#SessionService.v1_1_8.SessionService", "SessionService", "Session Service")
		o["ServiceEnabled"] = true
		o["SessionTimeout"] = int(b.config.SessionTimeout.Seconds())
		o["Sessions"] = link(sessionList)
		return o
	case sessionList:
		return collection(path, "Session", b.sessionPaths()...)
	}
	return nil
}

func (b *BMC) rootResource() object {
	o := resource(root, "#ServiceRoot.v1_9_0.ServiceRoot", "RootService", "Root Service")
	o["RedfishVersion"] = "1.11.0"
	o["UUID"] = "92384634-2938-2342-8820-489239905423"
	o["Vendor"] = b.config.Vendor
	o["Systems"] = link(systems)
	o["Managers"] = link(managers)
	o["Chassis"] = link(chassis)
	o["SessionService"] = link(sessionService)
	o["Links"] = object{"Sessions": link(sessionList)}
	return o
}

func (b *BMC) systemResource() object {
	o := resource(b.SystemPath(), "#ComputerSystem.v1_13_0.ComputerSystem", b.config.SystemID, "System")
	o["SystemType"] = "Physical"
	o["Manufacturer"] = b.config.Vendor
	if b.config.UUID != "" {
		o["UUID"] = b.config.UUID
	}
	o["PowerState"] = b.reported()
	o["Status"] = object{"State": "Enabled", "Health": "OK"}
	o["Boot"] = object{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"} // sushy wants it
	faults, reset := b.ordered(), object{"target": b.SystemPath() + resetAction}
	if faults.ActionInfo {
		reset["@Redfish.ActionInfo"] = b.SystemPath() + resetInfo
	} else {
		reset["ResetType@Redfish.AllowableValues"] = faults.resets()
	}
	o["Actions"] = object{"#ComputerSystem.Reset": reset}
	o["Links"] = object{"Chassis": links(chassis + "/1"), "ManagedBy": links(managers + "/BMC")}
	return o
}

func (b *BMC) resetInfoResource() object {
	faults := b.ordered()
	o := resource(b.SystemPath()+resetInfo, "#ActionInfo.v1_1_2.ActionInfo", "ResetActionInfo", "Reset Action Info")
	o["Parameters"] = []object{{"Name": "ResetType", "Required": true, "DataType": "String", "AllowableValues": faults.resets()}}
	return o
}

func (b *BMC) managerResource() object {
	o := resource(managers+"/BMC", "#Manager.v1_11_0.Manager", "BMC", "Manager")
	o["ManagerType"] = "BMC"
	o["FirmwareVersion"] = "1.0"
	o["Status"] = object{"State": "Enabled", "Health": "OK"}
	o["Links"] = object{"ManagerForServers": links(b.SystemPath()), "ManagerForChassis": links(chassis + "/1")}
	return o
}

func (b *BMC) chassisResource() object {
	o := resource(chassis+"/1", "#Chassis.v1_15_0.Chassis", "1", "Chassis")
	o["ChassisType"] = "RackMount"
	o["Status"] = object{"State": "Enabled", "Health": "OK"}
	o["Links"] = object{"ComputerSystems": links(b.SystemPath()), "ManagedBy": links(managers + "/BMC")}
	return o
}

func sessionResource(s *session) object {
	o := resource(sessionList+"/"+s.id, "#Session.v1_3_0.Session", s.id, "User Session")
	o["UserName"] = s.user
	return o
}
