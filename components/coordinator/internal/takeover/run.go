package takeover

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/coordinator/internal/view"
)

const (
	// callLimit bounds one call.
	callLimit = time.Second
	// failed is serf's status of a member that no other member reaches.
	failed = 4
)

// Store ends a Lease.
type Store interface {
	// EndLease ends the current Lease if it has this holder and Term.
	EndLease(ctx context.Context, holder string, term uint64) (ended bool, err error)
}

// Config of a Watch. All fields are required.
type Config struct {
	// Slot of this coordinator.
	Slot string
	// Address and Token of the local Consul.
	Address, Token string
	Views          *view.Watcher
	Store          Store
	Log            *slog.Logger
}

// Watch observes the leader on the standbys.
type Watch struct {
	cfg    Config
	client *consul.Client
}

// New returns a Watch; it does not connect.
func New(cfg Config) (*Watch, error) {
	// The calls take no context, and a hanging server must not stop the evaluations.
	client, err := consul.NewClient(&consul.Config{Address: cfg.Address, Token: cfg.Token, HttpClient: &http.Client{Timeout: callLimit, Transport: &http.Transport{IdleConnTimeout: time.Minute}}})
	if err != nil {
		return nil, fmt.Errorf("make consul client: %w", err)
	}
	return &Watch{cfg: cfg, client: client}, nil
}

// Run evaluates the leader until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(evaluateEvery)
	defer tick.Stop()
	var known watch
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		l := w.evaluate()
		if !known.next(l, time.Now()) {
			continue
		}
		call, cancel := context.WithTimeout(ctx, callLimit)
		ended, err := w.cfg.Store.EndLease(call, l.Leader, l.Term)
		cancel()
		switch {
		case err != nil && ctx.Err() == nil:
			w.cfg.Log.Info("lease of a lost leader not ended yet", "slot", l.Leader, "term", l.Term, "error", err)
		case ended:
			w.cfg.Log.Warn("the leader's machine is lost: its lease is ended", "slot", l.Leader, "term", l.Term)
		}
	}
}

// evaluate asks the local Consul about the leader's server.
func (w *Watch) evaluate() (l Evaluation) {
	v, _ := w.cfg.Views.Latest()
	if v == nil || v.Leader == "" || v.Leader == w.cfg.Slot {
		return Evaluation{}
	}
	l = Evaluation{Leader: v.Leader, Term: v.Term}
	members, err := w.client.Agent().Members(false)
	if err != nil {
		return l
	}
	address := ""
	for _, m := range members {
		if m.Name == l.Leader {
			l.Failed, address = m.Status == failed, m.Addr
		}
	}
	if !l.Failed {
		return l
	}
	raft, err := w.client.Status().Leader()
	host, _, split := net.SplitHostPort(raft)
	l.Elects = err != nil || split != nil
	l.LeadsRaft = !l.Elects && host == address
	return l
}
