package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cadre.dev/core/group"
)

// consul drives a Consul server of this CVM through its own HTTP port. Servers
// are named (node_name) as their Slots.
type consul struct {
	self      string
	base      string
	tokenFile string
	client    *http.Client
	// members are the Slots that the group is to have.
	members func() []string
}

var _ Driver = (*consul)(nil)

// consulDrainLimit is longer than a server needs to report a missing leader, which is 7 s.
const consulDrainLimit = 15 * time.Second

// consulTrailing is autopilot's MaxTrailingLogs: as close as it wants a voter.
const consulTrailing = 250

func newConsul(cfg Config, settings group.SettingValues) (*consul, error) {
	config, err := clientTLS(settings)
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if config != nil {
		scheme = "https://"
	}
	return &consul{
		self: cfg.Self, base: scheme + settings["http_addr"],
		tokenFile: settings["token_file"], client: newRESTClient(config), members: cfg.Members,
	}, nil
}

// Observe reads the server's own raft state, the raft configuration and autopilot's judgement. The
// last two come from the leader. A separate request checks whether the process lives: its endpoint
// needs no token and no other server.
func (c *consul) Observe(ctx context.Context) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	var (
		me                               consulSelf
		raft                             consulRaft
		auto                             consulHealth
		selfErr, raftErr, auErr, liveErr error
		wg                               sync.WaitGroup
	)
	wg.Go(func() {
		_, _, liveErr = call(ctx, c.client, http.MethodGet, c.base+"/v1/status/leader", nil, nil)
	})
	header, selfErr := c.header()
	if selfErr == nil {
		wg.Go(func() { raftErr = c.get(ctx, "/v1/operator/raft/configuration", header, &raft) })
		wg.Go(func() { auErr = c.get(ctx, "/v1/operator/autopilot/health", header, &auto) })
		selfErr = c.get(ctx, "/v1/agent/self", header, &me)
	}
	wg.Wait()
	if late := errors.Join(raftErr, auErr); selfErr == nil && me.Stats.Raft.State == "Leader" && isTimeout(late) {
		selfErr = late // a leader answers these itself: a late answer does not mean that it lost its role
	}
	if selfErr != nil {
		return c.unseen(selfErr, liveErr), nil
	}
	v := View{Role: RoleUnknown, Liveness: LivenessAlive}
	v.Version, v.Epoch = me.Config.Version, number(me.Stats.Raft.Term)
	switch {
	case me.Config.NodeName != c.self:
		v.Message = fmt.Sprintf("the server is named %q; it must be named as the slot, %q", me.Config.NodeName, c.self)
	case !me.Config.Server:
		v.Message = "this is a Consul client, not a server"
	case isDenied(raftErr) || isDenied(auErr):
		v.Message = "Consul: " + c.refusal(errors.Join(raftErr, auErr))
	case raftErr != nil || auErr != nil:
		v.Message = "the servers have no leader that answers: " + errors.Join(raftErr, auErr).Error()
	}
	if v.Message != "" {
		v.MayDisruptReason = v.Message
		return v, nil
	}
	judgeConsul(&v, c.self, me, raft, auto)
	return v, nil
}

// unseen is the View of a server with an unknown state, after the error err; liveErr is the error
// of the request that checks whether its process lives. A missing answer proves nothing, even if
// the process answered the simpler request: a slow server must not be taken for a broken one.
func (c *consul) unseen(err, liveErr error) View {
	v := View{Role: RoleUnknown}
	v.Liveness, v.Message = livenessOf(liveErr)
	switch answer := new(consulAnswer); {
	case errors.As(err, &answer):
		v.Liveness, v.Message = LivenessAlive, c.refusal(err)
	case v.Liveness == LivenessAlive && v.Message != "":
		v.Message = tlsHint(v.Message)
	case v.Liveness == LivenessAlive && isTimeout(err):
		v.Liveness, v.Message = LivenessUnknown, c.refusal(err)+", though the process answers at /v1/status/leader"
	case v.Liveness == LivenessAlive:
		v.Message = c.refusal(err)
	}
	v.Message = "Consul: " + v.Message
	v.MayDisruptReason = v.Message
	return v
}

func judgeConsul(v *View, self string, me consulSelf, raft consulRaft, auto consulHealth) {
	v.MemberIDs = make(map[string]string, len(raft.Servers))
	for _, s := range raft.Servers {
		name := s.name()
		v.MemberIDs[name] = s.ID
		if s.Voter {
			v.Voters = append(v.Voters, name)
		} else {
			v.Learners = append(v.Learners, name)
		}
		if s.Leader {
			v.Leader = s.Node
		}
	}
	slices.Sort(v.Voters)
	slices.Sort(v.Learners)
	v.QuorumMember = slices.Contains(v.Voters, self)
	switch {
	case me.Stats.Raft.State == "Leader" && v.Leader == self:
		v.Role = RoleLeader
	case v.QuorumMember:
		v.Role = RoleFollower
	case me.Stats.Raft.State != "":
		v.Role = RoleLearner
	}
	mine, leader := auto.server(self), auto.server(v.Leader)
	applied := number(me.Stats.Raft.Applied)
	v.Ready = v.Leader != "" && v.Role != RoleUnknown
	switch {
	case v.Role == RoleLeader:
		v.CaughtUp, v.Followers = ptr(true), auto.followers(self)
	case mine.Name == "" || leader.Name == "":
		v.Message = "autopilot does not know this server yet"
	default:
		near := applied+consulTrailing >= leader.LastIndex
		v.CaughtUp = ptr(mine.Healthy && mine.Voter && near)
		if !*v.CaughtUp {
			v.Message = fmt.Sprintf("autopilot: healthy %t, voter %t; applied %d of %d", mine.Healthy, mine.Voter, applied, leader.LastIndex)
		}
	}
	for _, s := range auto.Servers {
		if !s.Voter {
			v.Busy = append(v.Busy, s.Name+" is not a voter yet")
		}
	}
	switch {
	case v.Leader == "":
		v.MayDisruptReason = "the servers have no leader"
	case len(v.Busy) > 0:
		v.MayDisruptReason = "busy: " + v.Busy[0]
	case len(v.Voters) > 2 && auto.FailureTolerance < 1:
		v.MayDisruptReason = "autopilot's failure tolerance is 0"
	}
	v.MayDisrupt = v.MayDisruptReason == ""
}

// Drain keeps autopilot from pruning this server while it is away: a pruned server needs 20 s to
// become a voter again, and the set shrinks meanwhile. A server that is not ready has no leader to
// protect its place, or gets no answer from the leader. Drain returns no error then, because the
// step behind this drain may be the repair.
func (c *consul) Drain(ctx context.Context) error {
	err := c.keepListed(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if view, seeErr := c.Observe(ctx); seeErr == nil && !view.Ready {
		return nil
	}
	return err
}

// keepListed sets MinQuorum to the number of servers that raft lists now.
func (c *consul) keepListed(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, consulDrainLimit, fmt.Errorf("MinQuorum was not set within %s", consulDrainLimit))
	defer cancel()
	header, err := c.header()
	if err != nil {
		return err
	}
	var raft consulRaft
	if err := c.get(ctx, "/v1/operator/raft/configuration", header, &raft); err != nil {
		return fmt.Errorf("%w: %w", ErrTransient, err)
	}
	return c.setMinQuorum(ctx, header, func(have int) int { return max(have, len(raft.Servers)) })
}

func (c *consul) CancelDrain(context.Context) error { return nil }

// consulAnswer is an answer with an unexpected status.
type consulAnswer struct {
	path   string
	status int
	text   string
}

func (a *consulAnswer) Error() string {
	return fmt.Sprintf("get %s: status %d: %s", a.path, a.status, a.text)
}

// isDenied reports that Consul rejected the token, or lacks a permission for it.
func isDenied(err error) bool {
	var a *consulAnswer
	return errors.As(err, &a) && (a.status == http.StatusForbidden || a.status == http.StatusUnauthorized)
}

// refusal is err for people, with the setting that ends it.
func (c *consul) refusal(err error) string {
	var a *consulAnswer
	switch {
	case isDenied(err):
		return fmt.Sprintf("%v: the workload setting token_file must name a file with a valid token that has %s", err, group.ConsulDriverRules)
	case errors.As(err, &a) && a.status == http.StatusBadRequest:
		return tlsHint(err.Error())
	case isTimeout(err):
		return fmt.Sprintf("no answer within %s", observeBudget)
	}
	return err.Error()
}

func (c *consul) get(ctx context.Context, path string, header http.Header, v any) error {
	status, answer, err := call(ctx, c.client, http.MethodGet, c.base+path, header, nil)
	switch {
	case err != nil:
		return err
	// autopilot/health answers 429 with the same body when a server is unhealthy.
	case status != http.StatusOK && status != http.StatusTooManyRequests:
		return &consulAnswer{path, status, strings.TrimSpace(string(answer[:min(len(answer), 300)]))}
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("get %s: answer is not the expected JSON: %w", path, err)
	}
	return nil
}

// header carries the token, read each time so that rotation needs no restart.
func (c *consul) header() (http.Header, error) {
	if c.tokenFile == "" {
		return nil, nil
	}
	token, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return nil, fmt.Errorf("workload setting token_file: %w", err)
	}
	return http.Header{"X-Consul-Token": {strings.TrimSpace(string(token))}}, nil
}

func number(text string) uint64 {
	n, _ := strconv.ParseUint(text, 10, 64) // a figure that is missing reads as 0
	return n
}
