// Command adapter is an adapter in Go, of a workload whose admin API is at ADMIN.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"cadre.dev/adapters/serve"
	"cadre.dev/core/adapter"
)

type workload struct{ admin, self string }

// status is the workload's own view: GET /status.
type status struct {
	Leader  string   `json:"leader"`
	Term    uint64   `json:"term"`
	Synced  bool     `json:"synced"`
	Members []string `json:"members"`
}

func (w workload) call(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 700*time.Millisecond) // the agent waits 900 ms
	defer cancel()
	text, _ := json.Marshal(body)
	req, err := http.NewRequestWithContext(ctx, method, w.admin+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the workload answers %s", res.Status)
	}
	return json.NewDecoder(http.MaxBytesReader(nil, res.Body, 64<<10)).Decode(into)
}

func (w workload) Member(ctx context.Context) (adapter.Member, error) {
	var s status
	if err := w.call(ctx, "GET", "/status", nil, &s); err != nil {
		m := adapter.Member{Role: adapter.RoleUnknown, Liveness: adapter.Unknown, Message: err.Error(), MayDisruptReason: err.Error()}
		if errors.Is(err, syscall.ECONNREFUSED) {
			m.Liveness = adapter.Refused // no process listens: the only proof that it is down
		}
		return m, nil
	}
	m := adapter.Member{
		Role: adapter.RoleFollower, Liveness: adapter.Alive, Ready: s.Leader != "", CaughtUp: &s.Synced,
		Leader: s.Leader, Epoch: s.Term, Voters: s.Members, MayDisrupt: s.Leader != "",
	}
	if s.Leader == w.self {
		m.Role = adapter.RoleLeader
	}
	if s.Leader == "" {
		m.Message, m.MayDisruptReason = "the members have no leader", "the members have no leader"
	}
	return m, nil
}

func (w workload) Transfer(ctx context.Context, r adapter.TransferRequest) (adapter.Transferred, error) {
	var s status
	if err := w.call(ctx, "GET", "/status", nil, &s); err != nil {
		return adapter.Transferred{}, err
	}
	if s.Leader != w.self {
		return adapter.Transferred{Leader: s.Leader, Epoch: s.Term}, nil // success: it does not lead
	}
	at := slices.IndexFunc(r.Candidates, func(one string) bool { return one != w.self && slices.Contains(s.Members, one) })
	if r.ExpectedLeader != w.self || at < 0 {
		return adapter.Transferred{}, fmt.Errorf("%w: %s leads, and none of %q can take over", serve.ErrUnsafe, w.self, r.Candidates)
	}
	if err := w.call(ctx, "POST", "/lead", map[string]string{"to": r.Candidates[at]}, &s); err != nil {
		return adapter.Transferred{}, err
	}
	return adapter.Transferred{Moved: true, Leader: s.Leader, Epoch: s.Term}, nil
}

// A member of this workload may stop at any moment, and nothing here changes the set.
func (workload) Drain(context.Context) error                         { return nil }
func (workload) CancelDrain(context.Context) error                   { return nil }
func (workload) ChangeSet(context.Context, adapter.SetRequest) error { return serve.ErrUnsafe }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serve.Run(ctx, os.Getenv("LISTEN"), workload{os.Getenv("ADMIN"), os.Getenv("CADRE_SLOT")}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
