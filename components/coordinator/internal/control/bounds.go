package control

import (
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/reports"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Bounds of a report: an admitted agent may still be faulty.
const (
	maxChecks = 64
	maxSteps  = 64
	maxList   = 128
	maxFaults = 16
	// maxBackends is more than the number of routes that a group may have.
	maxBackends = 64
	// maxName bounds names and IDs.
	maxName = 256
	// maxText bounds messages. Messages go into the Operation and the status, where an oversized
	// text would block the whole group.
	maxText = 512
	// maxMessage bounds one call of an agent, and maxCalls its concurrent calls.
	maxMessage = 256 << 10
	maxCalls   = 16
)

// bound rejects an oversized report and truncates its texts.
func bound(r *controlv1.Report) error {
	m := r.GetMember()
	switch {
	case r == nil:
		return status.Error(codes.InvalidArgument, "report: missing")
	case len(r.GetChecks()) > maxChecks, len(r.GetSteps()) > maxSteps, len(m.GetVoters()) > maxList, len(m.GetLearners()) > maxList, len(m.GetFollowers()) > maxList, len(m.GetMemberIds()) > 2*maxList, len(m.GetBusy()) > maxList, len(r.GetSecretEpochs()) > maxList,
		len(r.GetFaults()) > maxFaults, len(r.GetBackends()) > maxBackends:
		return status.Error(codes.InvalidArgument, "report: too many entries")
	}
	names := []string{m.GetLeader(), m.GetVersion(), m.GetDataFormat(), r.GetAgentVersion()}
	names = slices.Concat(names, m.GetVoters(), m.GetLearners(), m.GetFollowers(), m.GetBusy())
	for slot, id := range m.GetMemberIds() {
		names = append(names, slot, id)
	}
	for name := range r.GetSecretEpochs() {
		names = append(names, name)
	}
	for _, c := range r.GetChecks() {
		names = append(names, c.GetName())
		truncateText(&c.Message)
	}
	for _, s := range r.GetSteps() {
		names = append(names, s.GetOperationId(), s.GetNewLeader())
		truncateText(&s.Message)
	}
	for _, b := range r.GetBackends() {
		if len(b.GetTags()) > reports.MaxTags {
			return status.Errorf(codes.InvalidArgument, "report: backend %.40q has %d tags, at most %d", b.GetName(), len(b.GetTags()), reports.MaxTags)
		}
		names = append(append(names, b.GetName()), b.GetTags()...)
		truncateText(&b.Output)
	}
	for i := range r.GetFaults() {
		truncateText(&r.Faults[i])
	}
	for _, name := range names {
		if len(name) > maxName {
			return status.Errorf(codes.InvalidArgument, "report: the name %.40q... has %d bytes, at most %d", name, len(name), maxName)
		}
	}
	if m != nil {
		truncateText(&m.Message)
		truncateText(&m.MayDisruptReason)
	}
	return nil
}

func truncateText(text *string) {
	if len(*text) > maxText {
		*text = strings.ToValidUTF8((*text)[:maxText], "") + "..."
	}
}
