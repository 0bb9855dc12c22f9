package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"cadre.dev/core/adapter"
)

const minISRName = "min.insync.replicas"

// fresh is how old a controller's last catch-up may be, by the leader's clock. The leader appends a record every half
// a second, so no log equals the leader's for long.
const fresh = 2 * time.Second

// minISRs are the values of min.insync.replicas by topic.
func minISRs(a *kmsg.DescribeConfigsResponse) (map[string]int, error) {
	out := map[string]int{}
	for _, r := range a.Resources {
		if err := refusal(r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, fmt.Errorf("settings of topic %s: %w", r.ResourceName, err)
		}
		for _, c := range r.Configs {
			if c.Name != minISRName || c.Value == nil {
				continue
			}
			n, err := strconv.Atoi(*c.Value)
			if err != nil {
				return nil, fmt.Errorf("%s of topic %s: %w", minISRName, r.ResourceName, err)
			}
			out[r.ResourceName] = n
		}
	}
	return out, nil
}

// judge is the member that the facts show. self is this node.
func judge(c Config, n names, self int32, version string, f facts) adapter.Member {
	m := adapter.Member{Role: adapter.RoleUnknown, Liveness: adapter.Alive, Version: version, DataFormat: formatName(f.level)}
	if f.live != nil {
		m.Liveness = adapter.Unknown
		// A broker opens its port after the recovery of its logs. Without a controller's port, a closed port is no
		// proof that the process is down.
		if refused(f.live) && c.Roles != RolesBroker {
			m.Liveness = adapter.Refused
		}
		m.Message = adapter.Text("Kafka does not answer: " + f.live.Error())
		m.MayDisruptReason = m.Message
		return m
	}
	caughtUp := f.quorum != nil
	why := func(text string) {
		if m.Message == "" {
			m.Message = adapter.Text(text)
		}
	}
	if c.Roles == RolesBroker {
		m.Role = adapter.RoleNone
	}
	if c.Roles != RolesBroker && f.quorum != nil {
		current := inQuorum(&m, n, self, f.quorum)
		caughtUp = caughtUp && current
		switch {
		case m.Role == adapter.RoleLearner:
			why("the controller has no vote yet")
		case m.Role == adapter.RoleUnknown:
			why("the voter of this node has another directory: the node lost its disk, and its old vote must go first")
		case !current:
			why("the controller's log is behind the active controller's")
		}
	}
	m.Ready = m.Role != adapter.RoleUnknown
	if f.quorum == nil {
		why("the quorum of controllers is not known: " + text(f.quorumErr))
	}
	if c.Roles != RolesController {
		if fenced, registered := f.nodes[self]; f.nodesErr != nil || !registered || fenced {
			m.Ready = false
			switch {
			case f.nodesErr != nil:
				why("the brokers are not known: " + text(f.nodesErr))
			case !registered:
				why("the broker is not registered")
			default:
				why("the broker is fenced: it leads no partition until it has caught up with the metadata")
			}
		}
		if behind := outOfSync(self, f.partitions); len(behind) > 0 {
			caughtUp = false
			why("the broker is out of sync in " + some(behind))
		}
	}
	if f.quorum != nil && (f.partitionsErr == nil || c.Roles == RolesController) {
		m.CaughtUp = &caughtUp
	}
	for _, p := range f.moving {
		if len(m.Busy) < adapter.MaxMembers {
			m.Busy = append(m.Busy, name("reassigns "+p))
		}
	}
	m.Fault = adapter.Text(faultOf(f.partitions))
	m.MayDisruptReason = adapter.Text(hinders(c, self, f))
	m.MayDisrupt = m.MayDisruptReason == ""
	return m
}

// inQuorum fills in the member's part among the controllers, and reports whether its log is as new as the leader's.
func inQuorum(m *adapter.Member, n names, self int32, q *quorum) (current bool) {
	m.Role, m.Leader, m.Epoch = adapter.RoleUnknown, n.of(q.leader), q.epoch
	m.MemberIDs = map[string]string{}
	now := time.Duration(0)
	for _, v := range q.voters {
		if v.node == q.leader {
			now = v.at
		}
	}
	id := func(r replica) {
		if r.directory != uuidText([16]byte{}) { // a static quorum has none
			m.MemberIDs[n.of(r.node)] = r.directory
		}
	}
	var own replica
	for _, v := range q.voters {
		m.Voters = append(m.Voters, n.of(v.node))
		id(v)
		if v.node == self {
			own, m.Role = v, adapter.RoleFollower
		}
		if q.leader == self && v.node != self && now-v.fetched <= fresh {
			m.Followers = append(m.Followers, n.of(v.node))
		}
	}
	for _, o := range q.observers {
		slot := n.of(o.node)
		switch {
		case o.node != self:
		case m.Role == adapter.RoleUnknown:
			own, m.Role = o, adapter.RoleLearner
		case o.fetched > own.fetched:
			// A voter on another disk is listed with the directory that it lost, and observes with the new one.
			own, m.Role = o, adapter.RoleUnknown
		}
		if !n.own(o.node) || slices.Contains(m.Voters, slot) || now-o.fetched > 10*fresh || len(m.Learners) == adapter.MaxMembers/2 {
			continue // brokers of another group, and nodes that are gone, read the log too
		}
		m.Learners = append(m.Learners, slot)
		id(o)
		m.Busy = append(m.Busy, slot+" joins")
	}
	if q.leader == self && m.Role == adapter.RoleFollower {
		m.Role = adapter.RoleLeader
	}
	slices.Sort(m.Voters)
	slices.Sort(m.Learners)
	slices.Sort(m.Followers)
	return (m.Role == adapter.RoleLeader || m.Role == adapter.RoleFollower) && now-own.at <= fresh
}

func (p partition) on(node int32) bool { return slices.Contains(p.replicas, node) }

// without is how many in-sync replicas remain when node stops.
func (p partition) without(node int32) int {
	n := len(p.isr)
	if slices.Contains(p.isr, node) {
		n--
	}
	return n
}

// outOfSync are the partitions that node holds and has not caught up with.
func outOfSync(node int32, all []partition) (out []string) {
	for _, p := range all {
		if !slices.Contains(p.isr, node) {
			out = append(out, p.String())
		}
	}
	return out
}

// faultOf names partitions that refuse writes now.
func faultOf(all []partition) string {
	var bad []string
	for _, p := range all {
		if p.leader < 0 || len(p.isr) < p.minISR {
			bad = append(bad, p.String())
		}
	}
	if len(bad) == 0 {
		return ""
	}
	return "writes are refused in " + some(bad) + ": too few replicas are in sync"
}

// hinders says why the node must not stop; empty: it may.
func hinders(c Config, self int32, f facts) string {
	switch {
	case f.quorum == nil:
		return "the quorum of controllers is not known: " + text(f.quorumErr)
	case c.Roles == RolesController:
		return ""
	case f.nodesErr != nil:
		return "the brokers are not known: " + text(f.nodesErr)
	case f.partitionsErr != nil:
		return "the partitions are not known: " + text(f.partitionsErr)
	case f.movingErr != nil:
		return "the reassignments are not known: " + text(f.movingErr)
	}
	var first partition
	count := 0
	for _, p := range f.partitions {
		if p.without(self) >= p.minISR || c.AcceptSingle && len(p.replicas) <= p.minISR {
			continue
		}
		// Named first are partitions that wait for a replica: others wait for an operator.
		if count == 0 || len(first.replicas) <= first.minISR && len(p.replicas) > p.minISR {
			first = p
		}
		count++
	}
	if count == 0 {
		return ""
	}
	out := fmt.Sprintf("%s would keep %d in-sync replicas, and its %s is %d", first, first.without(self), minISRName, first.minISR)
	if len(first.replicas) <= first.minISR {
		out += ": it has too few replicas for any stop"
	}
	if count > 1 {
		out += fmt.Sprintf(" (and %d more partitions)", count-1)
	}
	return out
}

// some lists the first of many.
func some(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return fmt.Sprintf("%s and %d more partitions", list[0], len(list)-1)
}

func text(err error) string {
	if err == nil {
		err = errors.New("no answer")
	}
	return err.Error()
}

// name bounds an entry of a list.
func name(s string) string {
	return strings.ToValidUTF8(adapter.Text(s)[:min(len(adapter.Text(s)), adapter.MaxName)], "")
}
