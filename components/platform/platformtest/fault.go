package platformtest

import "strings"

// Call is a request of a driver that the suite aims a Fault at.
type Call string

// The calls. Not every cloud has each.
const (
	CallList            Call = "list the cvms of an app"
	CallListAll         Call = "list all cvms"
	CallCreate          Call = "create"
	CallProvision       Call = "provision a new app"
	CallProvisionUpdate Call = "provision an update"
	CallUpdate          Call = "update"
	CallOSImage         Call = "set os image"
	CallResize          Call = "resize"
	CallBoth            Call = "image and size"
	CallDelete          Call = "delete"
)

// phalaRoute is where driver phala makes its calls.
func phalaRoute(c Call, vmUUID string) (method, path string) {
	switch c {
	case CallList:
		return "GET", "/cvms$"
	case CallListAll:
		return "GET", "/cvms"
	case CallCreate:
		return "POST", "/cvms$"
	case CallProvision:
		return "POST", "/cvms/provision$"
	case CallProvisionUpdate:
		return "POST", "/compose_file/provision$"
	case CallUpdate:
		return "PATCH", "/compose_file"
	case CallOSImage:
		return "PATCH", "/os-image"
	case CallResize:
		return "PATCH", "/resources"
	case CallBoth:
		return "PATCH", "/cvms/" + strings.ReplaceAll(vmUUID, "-", "") + "$"
	case CallDelete:
		return "DELETE", "/cvms/"
	}
	return "", ""
}

// Mode is the effect of a Fault on a request.
type Mode string

const (
	// Refuse answers 400 with a body; nothing happens.
	Refuse Mode = "refuse"
	// Incompatible answers the 400 that concurrent creates get; nothing happens.
	Incompatible Mode = "incompatible"
	// Busy answers 409 without an error code; nothing happens.
	Busy Mode = "busy"
	// Throttle answers 429 with Retry-After 0; nothing happens.
	Throttle Mode = "throttle"
	// ErrorBefore answers 500; nothing happens.
	ErrorBefore Mode = "error-before"
	// ErrorAfter answers 500 after the effect.
	ErrorAfter Mode = "error-after"
	// ResetBefore closes the connection; nothing happens.
	ResetBefore Mode = "reset-before"
	// ResetAfter closes the connection after the effect.
	ResetAfter Mode = "reset-after"
	// OtherHash answers a Provision with a hash of something else; nothing is kept.
	OtherHash Mode = "other-hash"
	// OtherText answers with OwnAppCompose and the hash of something else.
	OtherText Mode = "other-text"
	// OwnText answers with OwnAppCompose and its hash.
	OwnText Mode = "own-text"
)

// Fault hits the next Times requests that match.
type Fault struct {
	// Method of the request, e.g. "POST"; empty: any.
	Method string
	// Path is a part of the request's path, e.g. "/compose_file"; "$" at its end
	// anchors it at the end of the path; empty: any.
	Path string
	Mode Mode
	// Times is how many requests it hits; 0 reads as 1.
	Times int
}

// Matches reports whether the fault is for such a request.
func (f Fault) Matches(method, path string) bool { return f.matches(method, path) }

func (f Fault) matches(method, path string) bool {
	if f.Method != "" && f.Method != method {
		return false
	}
	if end, ok := strings.CutSuffix(f.Path, "$"); ok {
		return strings.HasSuffix(path, end)
	}
	return strings.Contains(path, f.Path)
}
