package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// consulCASPause is between two tries of a configuration that others changed.
const consulCASPause = 100 * time.Millisecond

// consulSelf is the part of GET /v1/agent/self that the driver reads. All
// figures are strings there.
type consulSelf struct {
	Config struct {
		NodeName string
		Version  string
		Server   bool
	}
	Stats struct {
		Raft struct {
			State   string `json:"state"`
			Term    string `json:"term"`
			Applied string `json:"applied_index"`
		} `json:"raft"`
	}
}

type consulRaft struct{ Servers []consulPeer }

// consulPeer is a server in raft. Its ID is the node id, which is stored on its disk.
type consulPeer struct {
	ID     string
	Node   string
	Leader bool
	Voter  bool
}

// consulUnknown is the name of a raft server whose node the gossip has forgotten.
const consulUnknown = "(unknown)"

// name is the server's Slot, or its id if Consul no longer knows its name.
func (p consulPeer) name() string {
	if p.Node == "" || p.Node == consulUnknown {
		return p.ID
	}
	return p.Node
}

// leaves returns the only remaining voter without peer; "" if there is not exactly one.
func (r consulRaft) leaves(peer consulPeer) string {
	left := ""
	for _, s := range r.Servers {
		switch {
		case s.ID == peer.ID || !s.Voter:
		case left != "":
			return ""
		default:
			left = s.Node
		}
	}
	return left
}

// consulMember is a node in the gossip.
type consulMember struct {
	Name   string
	Tags   map[string]string
	Status int
}

// consulAlive is serf's StatusAlive.
const consulAlive = 1

func (r consulRaft) leader() string {
	for _, s := range r.Servers {
		if s.Leader {
			return s.Node
		}
	}
	return ""
}

// voter returns the id of the voter that is named node.
func (r consulRaft) voter(node string) (string, bool) {
	for _, s := range r.Servers {
		if s.Node == node && s.Voter {
			return s.ID, true
		}
	}
	return "", false
}

type consulHealth struct {
	Healthy          bool
	FailureTolerance int
	Servers          []consulServer
}

type consulServer struct {
	Name      string
	Healthy   bool
	Voter     bool
	LastIndex uint64
}

func (h consulHealth) server(name string) consulServer {
	for _, s := range h.Servers {
		if s.Name == name {
			return s
		}
	}
	return consulServer{}
}

// followers are the servers except self that autopilot, in the leader, is in contact with and finds
// up to date, sorted.
func (h consulHealth) followers(self string) (names []string) {
	for _, s := range h.Servers {
		if s.Healthy && s.Name != self {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// setMinQuorum sets autopilot's MinQuorum to want(current value).
func (c *consul) setMinQuorum(ctx context.Context, header http.Header, want func(have int) int) error {
	return poll(ctx, consulCASPause, func(ctx context.Context) (bool, error) { return c.tryMinQuorum(ctx, header, want) })
}

// tryMinQuorum is one try of setMinQuorum. It returns false if the configuration changed in
// between; the caller then reads it again. All other settings stay as read.
func (c *consul) tryMinQuorum(ctx context.Context, header http.Header, want func(have int) int) (bool, error) {
	var config map[string]json.RawMessage
	if err := c.get(ctx, "/v1/operator/autopilot/configuration", header, &config); err != nil {
		return false, fmt.Errorf("%w: %w", ErrTransient, err)
	}
	var have int
	_ = json.Unmarshal(config["MinQuorum"], &have) // a missing value is 0
	set := want(have)
	if set == have {
		return true, nil
	}
	cas := strings.TrimSpace(string(config["ModifyIndex"]))
	delete(config, "ModifyIndex")
	delete(config, "CreateIndex")
	config["MinQuorum"] = json.RawMessage(strconv.Itoa(set))
	status, answer, err := call(ctx, c.client, http.MethodPut,
		c.base+"/v1/operator/autopilot/configuration?cas="+cas, header, config)
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: %w", ErrTransient, err)
	case status != http.StatusOK:
		return false, fmt.Errorf("%w: set MinQuorum: status %d: %s", ErrUnsafe, status, strings.TrimSpace(string(answer)))
	}
	return strings.TrimSpace(string(answer)) == "true", nil
}

// server returns the server with that id, under any name. Without an id, it returns the server
// listed under the name node, with a vote or without.
func (r consulRaft) server(node, id string) (consulPeer, bool) {
	for _, s := range r.Servers {
		if id != "" && s.ID == id || id == "" && s.Node == node {
			return s, true
		}
	}
	return consulPeer{}, false
}
