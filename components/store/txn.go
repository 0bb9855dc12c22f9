package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"

	"cadre.dev/core/audit"
)

const (
	// MaxTxnOps is the maximum number of operations of a transaction.
	MaxTxnOps = 64
	// MaxTxnBytes bounds the request of one transaction; Consul's default is 512 KiB.
	MaxTxnBytes = 500 * kib
	// opOverhead is an upper bound of the JSON around one operation's value and key.
	opOverhead = 256
)

// ValidateOps rejects operations that must not reach any store: ErrBadOp, ErrBadKey or ErrTooLarge.
// Every implementation of Store calls it first.
func ValidateOps(ops []Op) error {
	if len(ops) == 0 {
		return fmt.Errorf("%w: it has no operations", ErrBadOp)
	}
	if n := Weight(ops...); n > MaxTxnOps {
		return fmt.Errorf("%w: %d operations, at most %d: split the work into several transactions", ErrBadOp, n, MaxTxnOps)
	}
	size := 0
	for i, op := range ops {
		if err := op.validate(); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
		size += op.size()
	}
	if size > MaxTxnBytes {
		return fmt.Errorf("%w: the transaction has about %d bytes, at most %d", ErrTooLarge, size, MaxTxnBytes)
	}
	return nil
}

// Fit reports whether the operations are within the bounds of one transaction.
func Fit(ops ...Op) bool {
	size := 0
	for _, op := range ops {
		size += op.size()
	}
	return Weight(ops...) <= MaxTxnOps && size <= MaxTxnBytes
}

// Weight is the number of operations of a transaction of ops. A note adds its entry, and the first
// note adds the end of the audit chain. A change that needs a note counts as noted.
func Weight(ops ...Op) int {
	n, notes := len(ops), 0
	for _, op := range ops {
		if op.noted() {
			notes++
		}
	}
	return n + notes + min(notes, 1)
}

// noteBytes is an upper bound of the size of an entry and of the end of the chain in a request.
const noteBytes = (audit.MaxEntryBytes+1*kib)/3*4 + 2*opOverhead

// size estimates the bytes of o in a request.
func (o Op) size() int {
	n := opOverhead + len(o.Key) + (len(o.Value)+2)/3*4
	if o.noted() {
		n += noteBytes
	}
	return n
}

// Batches splits ops, in their order, into as few transactions as their bounds allow. It reserves
// room for fence, which the batches do not contain. An op that fits nowhere is its own batch, and
// Commit rejects it.
func Batches(fence, ops []Op) iter.Seq[[]Op] {
	taken, room := 0, MaxTxnOps-len(fence)
	for _, op := range fence {
		taken += op.size()
	}
	return func(yield func([]Op) bool) {
		for begin := 0; begin < len(ops); {
			end, size := begin, taken
			for end < len(ops) && Weight(ops[begin:end+1]...) <= room && size+ops[end].size() <= MaxTxnBytes {
				size += ops[end].size()
				end++
			}
			end = max(end, begin+1)
			if !yield(ops[begin:end:end]) {
				return
			}
			begin = end
		}
	}
}

func (o Op) validate() error {
	if err := CheckKey(o.Key); err != nil {
		return err
	}
	if _, known := verbs[o.Kind]; !known {
		return fmt.Errorf("%w: kind %q is unknown", ErrBadOp, o.Kind)
	}
	switch o.Kind {
	case OpCheckSession:
		if o.Session == "" {
			// Consul would read it as "the key is not held" and let the check pass.
			return fmt.Errorf("%w: %s of %s has no session", ErrBadOp, o.Kind, o.Key)
		}
	case OpCheckIndex, OpDeleteCAS:
		if o.Index == 0 {
			return fmt.Errorf("%w: %s of %s has index 0", ErrBadOp, o.Kind, o.Key)
		}
	case OpLock, OpUnlock:
		if o.Session == "" {
			return fmt.Errorf("%w: %s of %s has no session", ErrBadOp, o.Kind, o.Key)
		}
		if !strings.HasPrefix(o.Key, BootLeasePrefix) {
			return fmt.Errorf("%w: %s is not a key that is locked in a transaction, only those below %s are", ErrBadOp, o.Key, BootLeasePrefix)
		}
	case OpPut, OpPutCAS, OpDelete:
		// A restore creates the Term of its backup. No write lowers a Term.
		created := o.Key == TermKey && o.Kind == OpPutCAS && o.Index == 0
		if strings.HasPrefix(o.Key, LeasePrefix) && (o.Key != StateKey || o.Kind != OpPutCAS) && !created {
			return fmt.Errorf("%w: %s is written only by taking the Lease", ErrBadOp, o.Key)
		}
	case OpCheckAbsent:
	}
	// A Boot's lease may be deleted at an index at which it was free: each lock and each end of a
	// session changes the index.
	if o.Kind == OpDeleteCAS && strings.HasPrefix(o.Key, LeasePrefix) && !strings.HasPrefix(o.Key, BootLeasePrefix) {
		return fmt.Errorf("%w: %s is never deleted", ErrBadOp, o.Key)
	}
	return nil
}

// verbs maps each kind to Consul's operations. Deletion by index takes two of them, because
// Consul's own "delete-cas" succeeds on an absent key. A plain "delete" in their place would hide
// the failed check from the later operations of a transaction.
var verbs = map[OpKind][]api.KVOp{
	OpPut:          {api.KVSet},
	OpPutCAS:       {api.KVCAS},
	OpCheckIndex:   {api.KVCheckIndex},
	OpCheckAbsent:  {api.KVCheckNotExists},
	OpCheckSession: {api.KVCheckSession},
	OpLock:         {api.KVLock},
	OpUnlock:       {api.KVUnlock},
	OpDelete:       {api.KVDelete},
	OpDeleteCAS:    {api.KVCheckIndex, api.KVDeleteCAS},
}

// Commit sends one Consul transaction, after a read where it has entries of the audit chain. A
// failed fence also ends the Lease of this process that it
// belongs to.
func (c *Consul) Commit(ctx context.Context, ops ...Op) error {
	if err := ValidateOps(ops); err != nil {
		return err
	}
	c.mu.Lock()
	holder := c.holder
	c.mu.Unlock()
	return CommitNoted(ctx, c, NoteFenced(holder, time.Now(), ops), c.commit)
}

func (c *Consul) commit(ctx context.Context, ops []Op) error {
	sent := make(api.TxnOps, 0, len(ops)+4)
	origin := make([]int, 0, len(ops)+4)
	for i, op := range ops {
		for _, verb := range verbs[op.Kind] {
			sent = append(sent, &api.TxnOp{KV: &api.KVTxnOp{
				Verb: verb, Key: c.cfg.Prefix + op.Key, Value: op.Value, Index: op.Index, Session: op.Session,
			}})
			origin = append(origin, i)
		}
	}
	_, failures, err := c.txn(ctx, sent)
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if len(failures) == 0 {
		return nil
	}
	conflict := &ConflictError{}
	for _, failure := range failures {
		if strings.Contains(failure.What, "Permission denied") {
			return fmt.Errorf("commit: %w: %s", ErrDenied, failure.What)
		}
		i := origin[failure.OpIndex]
		if n := len(conflict.Failed); n > 0 && conflict.Failed[n-1].Index == i {
			continue
		}
		conflict.Failed = append(conflict.Failed, FailedOp{Index: i, Op: ops[i], What: failure.What})
	}
	if conflict.Fenced() {
		c.loseLeases(conflict)
	}
	return conflict
}

// txn sends ops once. The outcomes are: applied (results), rolled back (failures), certainly not
// applied (plain error), ErrUnknown.
func (c *Consul) txn(ctx context.Context, ops api.TxnOps) ([]*api.KVPair, api.TxnErrors, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	// A request that never had a connection was never sent.
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	status := &atomic.Int64{}
	ctx = context.WithValue(ctx, statusKey{}, status)
	ok, response, _, err := c.client.Txn().Txn(ops, consistent(ctx))
	if err != nil {
		switch code := status.Load(); {
		case code == http.StatusForbidden:
			return nil, nil, denied(err)
		case code >= 400 && code < 500 && code != http.StatusConflict:
			return nil, nil, err
		case !connected.Load():
			return nil, nil, err
		default:
			return nil, nil, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
	if !ok {
		if len(response.Errors) == 0 {
			return nil, nil, errors.New("rolled back without a reason")
		}
		for _, failure := range response.Errors {
			if failure.OpIndex < 0 || failure.OpIndex >= len(ops) {
				return nil, nil, fmt.Errorf("rolled back: %s", failure.What)
			}
		}
		return nil, response.Errors, nil
	}
	pairs := make([]*api.KVPair, 0, len(response.Results))
	for _, result := range response.Results {
		pairs = append(pairs, result.KV)
	}
	return pairs, nil, nil
}

// statusRecorder hands the status code of a response to the caller, because the API client drops it
// for transactions.
type statusRecorder struct{ next http.RoundTripper }

type statusKey struct{}

func (r statusRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.next.RoundTrip(request)
	if status, ok := request.Context().Value(statusKey{}).(*atomic.Int64); ok && response != nil {
		status.Store(int64(response.StatusCode))
	}
	return response, err
}

// readBackTimeout bounds the read-back of CommitResolved: the caller's own deadline may be the
// cause of the unknown outcome.
const readBackTimeout = 5 * time.Second

// CommitResolved is Commit that settles an unknown outcome by reading back: done reports whether
// the effect of ops is there, and then CommitResolved returns nil. Otherwise the error still Is
// ErrUnknown: the transaction may arrive later, so only operations that carry a check may be
// retried. done gets its own short context.
func CommitResolved(ctx context.Context, s Store, ops []Op, done func(ctx context.Context) (bool, error)) error {
	err := s.Commit(ctx, ops...)
	if !errors.Is(err, ErrUnknown) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readBackTimeout)
	defer cancel()
	switch applied, readErr := done(ctx); {
	case readErr != nil:
		return errors.Join(err, fmt.Errorf("read back: %w", readErr))
	case applied:
		return nil
	default:
		return fmt.Errorf("absent at the read-back: %w", err)
	}
}
