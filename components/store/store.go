package store

import (
	"context"
	"errors"
	"time"

	"cadre.dev/core/audit"
)

// Entry is one stored value. Do not change Value: other readers may share its bytes. Index is its
// modify index; Session holds the lock on the key, "" when the key is not locked.
type Entry struct {
	Key     string
	Value   []byte
	Index   uint64
	Session string
}

// Store is a linearizable key-value store with transactions. Keys are full
// paths below the prefix, e.g. "groups/pg/spec". Implementations are safe for
// concurrent use. Every call honours ctx.
type Store interface {
	// Get reads one key consistently; ErrNotFound when it is absent.
	Get(ctx context.Context, key string) (Entry, error)
	// List reads all keys below prefix consistently, sorted by key. Watch continues from the index.
	List(ctx context.Context, prefix string) ([]Entry, uint64, error)
	// Together reads several keys, and prefixes that end with Below, consistently and at one
	// moment, sorted by key. Absent keys are left out. At most MaxTogether.
	Together(ctx context.Context, what ...string) ([]Entry, error)
	// Watch blocks until a key below prefix may have changed since index, ctx ends, or the resync
	// time has passed. It returns the index to continue from. Intermediate changes are not
	// delivered: read again.
	Watch(ctx context.Context, prefix string, index uint64) (uint64, error)
	// Commit applies all operations or none, with the entries of noted ones. A fenced transaction
	// gets a note for each change of a spec or a record below control/. ErrConflict when a check
	// failed; ErrUnknown when the outcome is not known (time-out): read back.
	Commit(ctx context.Context, ops ...Op) error
	// Acquire tries to become the holder of the lease; ErrLeaseTaken when another holds it.
	Acquire(ctx context.Context, holder string) (Lease, error)
	// CreateSession makes a session that ends ttl to twice ttl after its last renewal, and before
	// that only by DestroySession. Its end frees its locks. ttl is at least the store's minimum, 10
	// s on Consul. name is for human readers. It never returns ErrUnknown: a session whose answer
	// is lost locks nothing and ends.
	CreateSession(ctx context.Context, name string, ttl time.Duration) (session string, err error)
	// RenewSession restarts its TTL; ErrNoSession when it has ended.
	RenewSession(ctx context.Context, session string) error
	// DestroySession ends it at once. It returns nil for a session that has ended already.
	DestroySession(ctx context.Context, session string) error
	// Holder returns the current holder of the lease ("" when the lease is free) and the current
	// Term.
	Holder(ctx context.Context) (holder string, term uint64, err error)
}

// Lease is the held lock with its fencing number.
type Lease interface {
	// Term of this holder; greater than every earlier one.
	Term() uint64
	// Context dies with the lease, before its TTL can have ended elsewhere.
	Context() context.Context
	// Remaining is how long the lease certainly lasts by the local monotonic clock.
	Remaining() time.Duration
	// Fence returns the checks that every write of this holder carries: check-session on the lock
	// key and check-index on the Term key.
	Fence() []Op
	// Release gives the lease up at once.
	Release(ctx context.Context) error
}

// OpKind is the effect of one Op of a transaction.
type OpKind string

const (
	// OpPut writes unconditionally.
	OpPut OpKind = "put"
	// OpPutCAS writes when the key's modify index equals Index; 0: when it is absent.
	OpPutCAS OpKind = "put-cas"
	// OpCheckIndex requires the key's modify index to equal Index.
	OpCheckIndex OpKind = "check-index"
	// OpCheckAbsent requires that the key does not exist.
	OpCheckAbsent OpKind = "check-absent"
	// OpCheckSession requires that Session holds the key.
	OpCheckSession OpKind = "check-session"
	// OpLock writes and locks the key for Session; it fails when another session
	// holds it or Session has ended. Only keys below BootLeasePrefix can be locked.
	OpLock OpKind = "lock"
	// OpUnlock writes and frees the key; it fails when Session does not hold it.
	OpUnlock OpKind = "unlock"
	// OpDelete deletes unconditionally; an absent key is fine.
	OpDelete OpKind = "delete"
	// OpDeleteCAS deletes when the key exists and its modify index equals Index.
	OpDeleteCAS OpKind = "delete-cas"
)

// Op is one operation of a transaction.
type Op struct {
	Kind    OpKind
	Key     string
	Value   []byte
	Index   uint64
	Session string
	// Note makes the transaction enter the Op in the audit chain: see Noted. nil: no entry.
	Note *audit.Entry
}

var (
	// ErrNotFound means that the key does not exist.
	ErrNotFound = errors.New("no such key")
	// ErrConflict means that a check of the transaction failed; nothing was written.
	ErrConflict = errors.New("transaction conflict")
	// ErrFenced means that the lease check failed; this holder must stop. Also ErrConflict.
	ErrFenced = errors.New("lease lost")
	// ErrLeaseTaken means that another holder has the lease.
	ErrLeaseTaken = errors.New("lease is held by another")
	// ErrNoSession means that the session has ended.
	ErrNoSession = errors.New("no such session")
	// ErrUnknown means that the transaction may or may not have been applied.
	ErrUnknown = errors.New("transaction outcome unknown")
	// ErrTooLarge means that a value exceeds its record's bound.
	ErrTooLarge = errors.New("record too large")
)
