package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/tokens"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/store"
)

// operatorOnce remembers that the operators' token exists, whichever coordinator created it.
type operatorOnce struct {
	done atomic.Bool
	// turn is taken by the one call that creates the token, and returned while that call waits.
	turn chan struct{}
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

// firstUse creates the operators' token in Consul when the cluster's measured trust names its
// digest and it was never created. The record makes this happen once in the life of a cluster. An
// operator who deletes the token in Consul removes it permanently, on every coordinator. Another
// token needs another digest in the trust file.
func (s *Server) firstUse(ctx context.Context, token string, v *view.View) error {
	if !s.isFirst(token) {
		return nil
	}
	if s.operator.done.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, makeTime)
	defer cancel()
	err := s.tryFirst(ctx, token, v)
	for (errors.Is(err, errMaking) || errors.Is(err, store.ErrConflict)) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
			err = s.tryFirst(ctx, token, v)
		}
	}
	if err != nil {
		return status.Error(codes.Unavailable, fmt.Sprintf("create the operators' token: %v", err))
	}
	return nil
}

// tryFirst is makeOnce for one call at a time.
func (s *Server) tryFirst(ctx context.Context, token string, v *view.View) error {
	select {
	case s.operator.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for another call that creates it: %w", ctx.Err())
	}
	defer func() { <-s.operator.turn }()
	if s.operator.done.Load() {
		return nil
	}
	err := s.makeOnce(ctx, token, s.cfg.OperatorTokenSHA256, v)
	if err == nil {
		s.operator.done.Store(true)
	}
	return err
}

// isFirst reports whether the cluster's measured trust names the token's digest.
func (s *Server) isFirst(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return s.cfg.OperatorTokenSHA256 != "" &&
		subtle.ConstantTimeCompare([]byte(hex.EncodeToString(sum[:])), []byte(s.cfg.OperatorTokenSHA256)) == 1
}

// mayBeFirst reports whether the first call may create a token that Consul does not know.
func (s *Server) mayBeFirst(token string) bool {
	return s.isFirst(token) && !s.operator.done.Load()
}

// makeOnce creates the token unless its record says that it was created. The record is written
// first, so that one coordinator at a time creates the token.
func (s *Server) makeOnce(ctx context.Context, token, digest string, v *view.View) error {
	key := store.OperatorTokenKey(digest)
	before, index, err := store.Read[store.OperatorToken](ctx, s.cfg.Store, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case len(store.RecordErrors(err)) > 0:
		s.cfg.Log.Error("the record of the operators' token cannot be read: the token counts as created", "error", err)
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
	if err := s.cfg.Tokens.EnsureOperator(ctx, token, v.Groups()); err != nil {
		return err
	}
	now.Made = true
	if _, err = s.record(ctx, key, now, index); err == nil {
		s.cfg.Log.Info("the operators' token was created; it will not be created again", "sha256", digest)
	}
	return err
}

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
	if _, err = s.record(ctx, store.OperatorTokenKey(s.cfg.OperatorTokenSHA256), before, index); err == nil {
		s.cfg.Log.Info("the operators' token exists; it will not be created again", "sha256", before.SHA256, "by", before.By)
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
