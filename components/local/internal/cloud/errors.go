package cloud

import "fmt"

// Kind is the meaning of a refusal; package api turns it into a status code.
type Kind string

const (
	// NotFound means no such thing.
	NotFound Kind = "not_found"
	// Ambiguous means that several CVMs match.
	Ambiguous Kind = "ambiguous"
	// Busy means that another operation runs on this CVM. No effect; retry later.
	Busy Kind = "busy"
	// NameTaken means that a CVM with that name exists in the workspace.
	NameTaken Kind = "name_taken"
	// Incompatible is the transient answer to concurrent creates.
	Incompatible Kind = "incompatible"
	// BadField means that a field is malformed.
	BadField Kind = "bad_field"
	// BadCompose means that the compose cannot be used.
	BadCompose Kind = "bad_compose"
	// Conflict contradicts the state permanently.
	Conflict Kind = "conflict"
	// BadState means that the operation does not apply to the CVM as it is.
	BadState Kind = "bad_state"
	// NoImage means that no OS image has that name.
	NoImage Kind = "no_image"
	// Suspended means that the workspace may change nothing.
	Suspended Kind = "suspended"
	// NoRoom means no place for another CVM.
	NoRoom Kind = "no_room"
)

// Error is a refusal: it had no effect.
type Error struct {
	Kind    Kind
	Field   string // of BadField
	Message string
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

func refuse(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

func badField(field, format string, args ...any) *Error {
	return &Error{Kind: BadField, Field: field, Message: fmt.Sprintf(format, args...)}
}
