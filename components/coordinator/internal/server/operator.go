package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/audit"
	"cadre.dev/store"
)

// operatorOnce remembers which operators' tokens must be created at their next call.
type operatorOnce struct {
	// done: the token of the trust file exists, whichever coordinator created it.
	done atomic.Bool
	// turn is taken by the one call that creates a token, and returned while that call waits.
	turn chan struct{}

	mu sync.Mutex
	// named are the digests of tokens that a record names and that do not exist yet; guarded by mu.
	named map[string]struct{}
}

// maxNamed bounds the remembered digests: stale ones are forgotten together with the others, and the
// next check of a token finds it again.
const maxNamed = 2 * store.MaxOperators

func (o *operatorOnce) expect(digest string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.named == nil || len(o.named) >= maxNamed {
		o.named = map[string]struct{}{}
	}
	o.named[digest] = struct{}{}
}

func (o *operatorOnce) expected(digest string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.named[digest]
	return ok
}

func (o *operatorOnce) forget(digest string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.named, digest)
}

const (
	// makeTime bounds the creation of the operators' token. abandoned is the age at which another
	// coordinator's announced creation counts as failed: none of its requests is in flight any
	// more.
	makeTime  = 10 * time.Second
	abandoned = time.Minute
	lookAgain = 100 * time.Millisecond
)

// errMaking: another coordinator creates the token.
var errMaking = errors.New("another coordinator is creating it")

// firstUse creates an operator's token in Consul when the cluster's measured trust or the record of
// an operator names its digest and it was never created. The record of the creation makes this
// happen once in the life of a cluster. A token that is deleted in Consul stays deleted, on every
// coordinator.
func (s *Server) firstUse(ctx context.Context, token string, v *view.View) error {
	digest := digestOf(token)
	if !s.due(digest) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	err := s.tryFirst(ctx, token, digest, v)
	for (errors.Is(err, errMaking) || errors.Is(err, store.ErrConflict)) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
			err = s.tryFirst(ctx, token, digest, v)
		}
	}
	if err != nil {
		return status.Error(codes.Unavailable, fmt.Sprintf("create the operator's token: %v", err))
	}
	return nil
}

// due reports whether the next call with the token creates it.
func (s *Server) due(digest string) bool {
	return s.isFirst(digest) && !s.operator.done.Load() || s.operator.expected(digest)
}

// tryFirst is makeOnce for one call at a time.
func (s *Server) tryFirst(ctx context.Context, token, digest string, v *view.View) error {
	select {
	case s.operator.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for another call that creates it: %w", ctx.Err())
	}
	defer func() { <-s.operator.turn }()
	if !s.due(digest) {
		return nil
	}
	err := s.makeOnce(ctx, token, digest, v)
	if errors.Is(err, errNotNamed) {
		s.operator.forget(digest)
		return nil // Consul refuses the call
	}
	if err == nil {
		s.operator.forget(digest)
		if s.isFirst(digest) {
			s.operator.done.Store(true)
		}
	}
	return err
}

// digestOf returns the SHA-256 of a token, in hex.
func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// isFirst reports whether the cluster's measured trust names the digest.
func (s *Server) isFirst(digest string) bool {
	return s.cfg.OperatorTokenSHA256 != "" && subtle.ConstantTimeCompare([]byte(digest), []byte(s.cfg.OperatorTokenSHA256)) == 1
}

// mayBeFirst reports whether the first call may create a token that Consul does not know. It
// remembers a token that a record names, for firstUse.
func (s *Server) mayBeFirst(ctx context.Context, token string) (bool, error) {
	digest := digestOf(token)
	if s.isFirst(digest) {
		return !s.operator.done.Load(), nil
	}
	named, err := s.named(ctx, digest)
	if err != nil || named == nil {
		return false, err
	}
	made, _, err := store.Read[store.OperatorToken](ctx, s.cfg.Store, store.OperatorTokenKey(digest))
	switch {
	case errors.Is(err, store.ErrNotFound):
	case len(store.RecordErrors(err)) > 0, err == nil && made.Made:
		return false, nil
	case err != nil:
		return false, err
	}
	s.operator.expect(digest)
	return true, nil
}

// naming is the record of an operator that names a token, with the record's index.
type naming struct {
	store.OperatorRecord
	index   uint64
	expires time.Time
}

// named returns the record that names the token with this digest; nil: there is none, or the token
// has ended.
func (s *Server) named(ctx context.Context, digest string) (*naming, error) {
	records, _, err := store.ReadAll[store.OperatorRecord](ctx, s.cfg.Store, store.OperatorRecordsPrefix)
	if err != nil && len(store.RecordErrors(err)) == 0 {
		return nil, err
	}
	for _, r := range records {
		expires, ok := r.Value.Named(digest)
		life := expires.Sub(s.cfg.Now()) // a record that was written by plain KV may have any end
		if ok && r.Value.Check() == nil && r.Key == store.OperatorKey(r.Value.Name) && life > shortest && life <= store.MaxOperatorLife+time.Hour {
			return &naming{r.Value, r.Index, expires}, nil
		}
	}
	return nil, nil
}

// shortest is the shortest life that Consul gives a token, with a margin for its creation.
const shortest = time.Minute + makeTime

// makeOnce creates the token unless its record says that it was created. The record is written
// first, so that one coordinator at a time creates the token.
func (s *Server) makeOnce(ctx context.Context, token, digest string, v *view.View) error {
	key := store.OperatorTokenKey(digest)
	before, index, err := store.Read[store.OperatorToken](ctx, s.cfg.Store, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case len(store.RecordErrors(err)) > 0:
		s.cfg.Log.Error("the record of the operator's token cannot be read: the token counts as created", "error", err)
		return nil
	case err != nil:
		return err
	case before.Made:
		return nil
	case before.By != s.cfg.Slot && s.cfg.Now().Sub(before.At) < abandoned:
		return s.madeByAnother(ctx, token, before, index)
	}
	now := store.OperatorToken{SHA256: digest, By: s.cfg.Slot, At: s.cfg.Now().UTC()}
	if index, err = s.record(ctx, key, now, index); err != nil {
		return err
	}
	if err := s.create(ctx, token, digest, v.Groups()); err != nil {
		return err
	}
	now.Made = true
	if _, err = s.record(ctx, key, now, index); err == nil {
		s.cfg.Log.Info("the operator's token was created; it will not be created again", "sha256", digest)
	}
	return err
}

// create creates the token in Consul. The next token of a rotation replaces the present one first:
// should this coordinator die before the end, the next use continues, and the leader deletes the
// replaced token, which no record names.
func (s *Server) create(ctx context.Context, token, digest string, groups []string) error {
	if s.isFirst(digest) {
		return s.cfg.Tokens.EnsureOperator(ctx, token, groups)
	}
	by, err := s.named(ctx, digest)
	if err != nil {
		return err
	}
	if by == nil {
		return errNotNamed
	}
	replaced, accessor := "", store.OperatorAccessor(digest)
	if digest == by.Next {
		replaced = store.OperatorAccessor(by.SHA256)
		next := by.OperatorRecord
		next.SHA256, next.Expires, next.Next, next.NextExpires = by.Next, by.NextExpires, "", time.Time{}
		put, err := store.Put(store.OperatorKey(by.Name), next, by.index)
		if err != nil {
			return err
		}
		// The record of the rotation names the admin; the operator itself ends it.
		note := audit.Entry{At: s.cfg.Now(), Who: audit.Operator, By: tokens.NamedText(by.Name, accessor), Verb: "use-next-token"}
		if err := s.cfg.Store.Commit(ctx, store.Noted(put, note)); err != nil {
			return err
		}
	}
	if err := s.cfg.Tokens.EnsureNamed(ctx, token, tokens.Operator{Name: by.Name, Accessor: accessor, Role: by.Role, Groups: by.Groups, Expires: by.expires}, groups); err != nil {
		return err
	}
	if err := s.cfg.Tokens.Revoke(ctx, replaced); err != nil {
		return err
	}
	// The operator may have been removed meanwhile.
	if by, err = s.named(ctx, digest); err == nil && by == nil {
		err = errors.Join(errNotNamed, s.cfg.Tokens.Revoke(ctx, accessor))
	}
	return err
}

// errNotNamed: no record names the token any more, so it is not created.
var errNotNamed = errors.New("the operator was removed")

// madeByAnother records the creation if Consul knows the token: the coordinator that created it may
// have died before it recorded that. Otherwise it returns errMaking.
func (s *Server) madeByAnother(ctx context.Context, token string, before store.OperatorToken, index uint64) error {
	_, err := s.cfg.Tokens.NameOf(ctx, token)
	switch {
	case errors.Is(err, tokens.ErrDenied):
		return fmt.Errorf("%w: %s", errMaking, before.By)
	case err != nil:
		return err
	}
	before.Made = true
	if _, err = s.record(ctx, store.OperatorTokenKey(before.SHA256), before, index); err == nil {
		s.cfg.Log.Info("the operator's token exists; it will not be created again", "sha256", before.SHA256, "by", before.By)
	}
	return err
}

// record writes the record if it is unchanged since the read, and returns its new index.
func (s *Server) record(ctx context.Context, key string, value store.OperatorToken, index uint64) (uint64, error) {
	put, err := store.Put(key, value, index)
	if err != nil {
		return 0, err
	}
	if err := s.cfg.Store.Commit(ctx, put); err != nil {
		return 0, err
	}
	written, err := s.cfg.Store.Get(ctx, key)
	if err == nil && !bytes.Equal(written.Value, put.Value) {
		err = fmt.Errorf("%w: %s was written by another coordinator", store.ErrConflict, key)
	}
	return written.Index, err
}
