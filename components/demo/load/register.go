package load

import (
	"context"
	"sync"
	"time"
)

// RegisterKind is the kind of a RegisterOp.
type RegisterKind string

const (
	// RegisterRead reads a register linearizably.
	RegisterRead RegisterKind = "read"
	// RegisterPut overwrites a register.
	RegisterPut RegisterKind = "put"
	// RegisterSwap writes only where the register holds Expect.
	RegisterSwap RegisterKind = "swap"
)

// RegisterOp is one operation on one register. A register that was never written holds 0; every
// write has a unique value, its ID, so that a read identifies its write.
type RegisterOp struct {
	ID     int64        `json:"id"`
	Client int          `json:"client"`
	Key    int          `json:"key"`
	Kind   RegisterKind `json:"kind"`
	Expect int64        `json:"expect,omitempty"`
	// Call and Return are monotonic nanoseconds since the run began.
	Call   int64 `json:"call"`
	Return int64 `json:"return"`
	// Unknown: no answer came. The operation may take effect at any time after
	// Call, also after Return, or never.
	Unknown bool `json:"unknown,omitempty"`
	// Value is the value that a read, or a refused swap, found.
	Value   int64  `json:"value,omitempty"`
	Swapped bool   `json:"swapped,omitempty"`
	Member  string `json:"member"`
	Error   string `json:"error,omitempty"`
}

// wrote reports that the op's value is certainly in the store's history.
func (o RegisterOp) wrote() bool {
	return !o.Unknown && (o.Kind == RegisterPut || o.Kind == RegisterSwap && o.Swapped)
}

// RegisterAnswer is a store's answer to a RegisterOp.
type RegisterAnswer struct {
	Value   int64
	Swapped bool
	// Term of the leader at that time; 0 when unknown.
	Term uint64
}

// RegisterStore is a system of registers with several members, each of which
// takes every operation. Safe for concurrent use.
type RegisterStore interface {
	// Members names the members; operations address them by index.
	Members() []string
	// Do sends op to one member. Each write also leaves its ID for IDs, in one
	// transaction. Any error means that the effect is not known.
	Do(ctx context.Context, member int, op RegisterOp) (RegisterAnswer, error)
	// IDs reads the IDs of all writes that took effect.
	IDs(ctx context.Context) (map[int64]bool, error)
	// Leader asks one member for the term, and whether it leads itself.
	Leader(ctx context.Context, member int) (term uint64, leads bool, err error)
}

// Reign is one leader's time as the load saw it.
type Reign struct {
	Term uint64 `json:"term"`
	// Leader is empty when only answers revealed the Term.
	Leader string    `json:"leader,omitempty"`
	Since  time.Time `json:"since"`
}

// History keeps every RegisterOp of a run and the reigns. It holds them all in
// memory: a run is minutes. Safe for concurrent use.
type History struct {
	mu     sync.Mutex
	ops    []RegisterOp     // guarded by mu
	reigns map[uint64]Reign // guarded by mu
	out    func(RegisterOp)
}

// NewHistory returns an empty history that also hands each op to out, if not nil.
func NewHistory(out func(RegisterOp)) *History {
	return &History{reigns: map[uint64]Reign{}, out: out}
}

// Add appends one op that returned or was given up.
func (h *History) Add(op RegisterOp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
	if h.out != nil {
		h.out(op)
	}
}

// Ops returns a copy of everything so far.
func (h *History) Ops() []RegisterOp {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]RegisterOp(nil), h.ops...)
}

// sawTerm notes a Term; leader is empty where the source does not name it.
func (h *History) sawTerm(term uint64, leader string, at time.Time) {
	if term == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r, known := h.reigns[term]
	if !known {
		r = Reign{Term: term, Since: at}
	}
	if leader != "" {
		r.Leader = leader
	}
	h.reigns[term] = r
}
