package storetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/hashicorp/consul/api"

	"cadre.dev/store"
)

// ConsulStore is a Store on a real Consul whose renewals can be held up, as if the process had been
// paused.
type ConsulStore struct {
	*store.Consul
	transport *switchTransport
	// again returns a store on the same records, and edit changes a key without any rule.
	again func() store.Store
	edit  func(change func(kv *api.KV, prefix string) error)
}

// Wipe is Memory.Wipe.
func (c *ConsulStore) Wipe(key string) store.Store {
	c.edit(func(kv *api.KV, prefix string) error { _, err := kv.Delete(prefix+key, nil); return err })
	return c.again()
}

// SetTerm is Memory.SetTerm.
func (c *ConsulStore) SetTerm(term uint64) {
	c.edit(func(kv *api.KV, prefix string) error {
		_, err := kv.Put(&api.KVPair{Key: prefix + store.TermKey, Value: fmt.Appendf(nil, `{"term":%d}`, term)}, nil)
		return err
	})
}

// PauseRenewals makes every renewal of a session hang until a call with false, or until the caller
// gives up.
func (c *ConsulStore) PauseRenewals(paused bool) { c.transport.pause(paused) }

// LoseReplies makes transactions that write reach the server while their replies are lost, until a
// call with false.
func (c *ConsulStore) LoseReplies(lose bool) {
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	c.transport.loseReplies = lose
}

type switchTransport struct {
	pool *http.Transport

	mu sync.Mutex
	// resume is closed to let the renewals go; nil when nothing is held up.
	resume      chan struct{}
	loseReplies bool
}

// reads reports whether the transaction of a request only reads, as store.Together does.
func reads(request *http.Request) bool {
	if request.GetBody == nil {
		return false
	}
	body, err := request.GetBody()
	if err != nil {
		return false
	}
	text, err := io.ReadAll(body)
	return err == nil && (bytes.Contains(text, []byte(api.KVGetOrEmpty)) || bytes.Contains(text, []byte(api.KVGetTree)))
}

func newSwitchTransport() *switchTransport {
	return &switchTransport{pool: &http.Transport{MaxIdleConnsPerHost: 16}}
}

func (s *switchTransport) close() {
	s.pause(false)
	s.pool.CloseIdleConnections()
}

func (s *switchTransport) pause(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case paused && s.resume == nil:
		s.resume = make(chan struct{})
	case !paused && s.resume != nil:
		close(s.resume)
		s.resume = nil
	}
}

func (s *switchTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	s.mu.Lock()
	resume, lose := s.resume, s.loseReplies
	s.mu.Unlock()
	if resume != nil && strings.Contains(request.URL.Path, "/session/renew/") {
		select {
		case <-resume:
		case <-request.Context().Done():
			return nil, context.Cause(request.Context())
		}
	}
	response, err := s.pool.RoundTrip(request)
	if err == nil && lose && strings.HasSuffix(request.URL.Path, "/txn") && !reads(request) {
		_ = response.Body.Close()
		return nil, http.ErrServerClosed
	}
	return response, err
}
