package control

import (
	"strings"

	"cadre.dev/agent/internal/latestvalue"
	"cadre.dev/core/policy"
	"cadre.dev/overlay"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Ended is a coordinator's notice that this Boot lost its Slot.
type Ended struct {
	Code, Message string
	// From is the coordinator.
	From string
}

// Ended is set once, by a coordinator's notice; nil before.
func (h *Hub) Ended() *latestvalue.Value[*Ended] { return &h.ended }

func (h *Hub) end(from overlay.ID, code, message string) {
	if already, _ := h.ended.Get(); already == nil && !h.leaving.Load() {
		h.ended.Set(&Ended{Code: code, Message: message, From: from.Slot})
	}
}

// noteEnded reads a coordinator's refusal. Coordinators answer so after they have
// read the records once more; the session has authenticated them.
func (h *Hub) noteEnded(from overlay.ID, err error) {
	s, ok := status.FromError(err)
	if err == nil || !ok || s.Code() != codes.FailedPrecondition {
		return
	}
	code, message, found := strings.Cut(s.Message(), ": ")
	if found && policy.Code(code).Known() && policy.Code(code) != policy.CodeFenced && policy.Code(code) != policy.CodeReattestRequired {
		h.end(from, code, message)
	}
}
