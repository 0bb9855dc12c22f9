package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"cadre.dev/demo/load"
)

// Groups of the NATS example.
const (
	NATS    = "nats"
	NATSApp = "nats-app"
)

// DeployNATS starts a local cloud with three coordinators, the NATS example and its publishers, whose
// writes are steady then.
func (r *Rig) DeployNATS(ctx context.Context, n *Narrator) error {
	n.Say("starting a local cloud and three coordinators")
	if err := r.Up(ctx); err != nil {
		return err
	}
	if err := r.CreateCluster(ctx); err != nil {
		return err
	}
	n.Say("applying groups %s and %s", NATS, NATSApp)
	if err := r.ApplyNATS(ctx, "1"); err != nil {
		return err
	}
	if err := r.applyFile(ctx, "clusters/nats/app.hcl", []string{"agent", "load"}); err != nil {
		return err
	}
	for _, name := range []string{NATS, NATSApp} {
		if _, err := r.Follow(ctx, name, n.Rollout); err != nil {
			return fmt.Errorf("deploy %s: %w", name, err)
		}
	}
	n.Say("waiting for steady writes")
	return r.AwaitMessages(ctx, NATSApp, time.Now(), 200)
}

// ApplyNATS writes the group's spec with the given release.
func (r *Rig) ApplyNATS(ctx context.Context, release string) error {
	return r.applyFile(ctx, "clusters/nats/nats.hcl", []string{"agent", "nats"}, "--var", "release="+release)
}

// applyFile applies a group file of the checkout.
func (r *Rig) applyFile(ctx context.Context, file string, images []string, extra ...string) error {
	vars, err := r.ImageVars(images...)
	if err != nil {
		return err
	}
	args := append([]string{"group", "apply", "--var", "cloud=" + r.CloudFile(), "--var", "context=" + r.ContextFile()}, vars...)
	args = append(append(args, extra...), filepath.Join(r.Root, file))
	_, err = r.Cadre(ctx, args...)
	return err
}

// MessageSummary asks the writers in the group app for the figures of a span; zero times are open.
func (r *Rig) MessageSummary(ctx context.Context, app string, from, to time.Time) (load.Summary, error) {
	var s load.Summary
	return s, r.loadCtlOf(ctx, app, &s, "summary", stamp(from), stamp(to))
}

// StopMessages stops the writers in the group app, and looks for every acknowledged write.
func (r *Rig) StopMessages(ctx context.Context, app string) (load.Verdict, error) {
	var v load.Verdict
	if err := r.loadCtlOf(ctx, app, nil, "stop"); err != nil {
		return v, err
	}
	return v, r.loadCtlOf(ctx, app, &v, "verify")
}

// AwaitMessages waits until n writes of the group app were acknowledged since then.
func (r *Rig) AwaitMessages(ctx context.Context, app string, since time.Time, n int) error {
	var last error
	each(ctx, 500*time.Millisecond, func(ctx context.Context) bool {
		s, err := r.MessageSummary(ctx, app, since, time.Time{})
		if last = err; err == nil && s.Acknowledged < n {
			last = fmt.Errorf("%d of %d writes were acknowledged: %v", s.Acknowledged, n, s.Errors)
		}
		return last == nil
	})
	return last
}

// NATSServer is the own word of a Slot's server.
type NATSServer struct {
	// Name of the server; Leader and Peers of the meta group are names, too, and Peers are sorted and
	// hold this server.
	Name, Leader string
	Peers        []string
	// Term of the meta group.
	Term uint64
	// Replicas of each stream that this server leads, this server among them, sorted; only current ones.
	Replicas map[string][]string
}

// natsGroup is a raft group in a server's answers.
type natsGroup struct {
	Leader   string `json:"leader"`
	Replicas []struct {
		Name    string `json:"name"`
		Current bool   `json:"current"`
	} `json:"replicas"`
}

// NATSServerOf asks the Slot's own server at its monitoring port.
func (r *Rig) NATSServerOf(ctx context.Context, slot string) (NATSServer, error) {
	within, err := r.inside(slot)
	if err != nil {
		return NATSServer{}, err
	}
	defer within.close()
	transport := &http.Transport{DialContext: within.dial, DisableKeepAlives: true}
	get := func(page string, into any) error {
		return natsPage(ctx, transport, page, into)
	}
	var (
		varz struct {
			Name string `json:"server_name"`
		}
		jsz struct {
			Meta     natsGroup `json:"meta_cluster"`
			Accounts []struct {
				Streams []struct {
					Name    string    `json:"name"`
					Cluster natsGroup `json:"cluster"`
				} `json:"stream_detail"`
			} `json:"account_details"`
		}
		raftz map[string]map[string]struct {
			Term uint64 `json:"term"`
		}
	)
	if err := errors.Join(get("/varz", &varz), get("/jsz?streams=true", &jsz), get("/raftz?group=_meta_", &raftz)); err != nil {
		return NATSServer{}, fmt.Errorf("ask the server of %s: %w", slot, err)
	}
	s := NATSServer{Name: varz.Name, Leader: jsz.Meta.Leader, Peers: []string{varz.Name}, Replicas: map[string][]string{}}
	for _, account := range raftz {
		s.Term = account["_meta_"].Term
	}
	for _, p := range jsz.Meta.Replicas {
		s.Peers = append(s.Peers, p.Name)
	}
	slices.Sort(s.Peers)
	for _, account := range jsz.Accounts {
		for _, stream := range account.Streams {
			if stream.Cluster.Leader != s.Name {
				continue
			}
			current := []string{s.Name}
			for _, p := range stream.Cluster.Replicas {
				if p.Current {
					current = append(current, p.Name)
				}
			}
			slices.Sort(current)
			s.Replicas[stream.Name] = current
		}
	}
	return s, nil
}

func natsPage(ctx context.Context, transport http.RoundTripper, page string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8222"+page, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	return json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(into)
}
