package webdemo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Hello identifies the answering Slot.
type Hello struct {
	Cluster  string `json:"cluster"`
	Group    string `json:"group"`
	Slot     string `json:"slot"`
	Release  string `json:"release"`
	Instance string `json:"instance"`
}

func (h Hello) line() string { return fmt.Sprintf("%s release %s\n", h.Slot, h.Release) }

func (w Web) hello(ctx context.Context) Hello {
	me := w.Self
	if w.Instance != nil {
		// The answer has its other fields also without an answer of the agent.
		me.Instance, _ = w.Instance(ctx)
	}
	return me
}

const (
	// agentTimeout bounds one question to the agent, and agentPause is the time between two
	// that failed: it is next Consul proxy, and no answer may wait for it.
	agentTimeout = 250 * time.Millisecond
	agentPause   = 2 * time.Second
	mostAnswer   = 64 << 10
)

// Agent asks the agent at url, http://127.0.0.1:7070, which instance fills the Slot. The
// answer holds for the life of this process, which does not outlive its CVM.
func Agent(url string) func(context.Context) (string, error) {
	var mu sync.Mutex
	var known string
	var failed error
	var again time.Time
	return func(ctx context.Context) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if known == "" && time.Now().After(again) {
			known, failed = instanceOf(ctx, url)
			again = time.Now().Add(agentPause)
		}
		return known, failed
	}
}

func instanceOf(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), agentTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/instance", nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask the agent: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New("ask the agent: " + resp.Status)
	}
	var said struct {
		InstanceID string `json:"instance_id"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostAnswer)).Decode(&said); err != nil {
		return "", fmt.Errorf("read the agent's answer: %w", err)
	}
	return said.InstanceID, nil
}
