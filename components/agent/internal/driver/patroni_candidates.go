package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// patroniCluster is the part of GET /cluster that the driver reads.
type patroniCluster struct {
	Members             []patroniMember `json:"members"`
	Pause               bool            `json:"pause"`
	ScheduledSwitchover json.RawMessage `json:"scheduled_switchover"`

	// config is empty if Patroni did not return it: then the members' roles decide alone.
	config patroniDynamic
}

type patroniMember struct {
	Name     string         `json:"name"`
	Role     string         `json:"role"`
	State    string         `json:"state"`
	Timeline uint64         `json:"timeline"`
	Tags     map[string]any `json:"tags"`
}

// patroniDynamic is the part of GET /config, Patroni's dynamic configuration, that the driver reads.
type patroniDynamic struct {
	SynchronousMode any `json:"synchronous_mode"` // also a text: "on", "quorum"
	MaximumLag      any `json:"maximum_lag_on_failover"`
}

// synchronousOnly: only a synchronous standby may take over, and no member may if there is none.
// The quorum mode does not count: with an empty quorum any replica may take over there.
func (c patroniDynamic) synchronousOnly() bool {
	switch on := c.SynchronousMode.(type) {
	case bool:
		return on
	case string:
		return slices.Contains([]string{"on", "true", "yes", "1"}, strings.ToLower(on))
	case float64:
		return on == 1
	}
	return false
}

// maximumLag is how far behind a candidate may be by Patroni's own rule, in bytes.
func (c patroniDynamic) maximumLag() int64 {
	if n, ok := patroniNumber(c.MaximumLag); ok {
		return n
	}
	return 1 << 20 // Patroni's default
}

// patroniNumber reads a whole number as Patroni does, which takes texts too.
func patroniNumber(v any) (int64, bool) {
	switch n := v.(type) {
	case float64:
		return int64(n), true
	case string:
		i, err := strconv.ParseInt(n, 10, 64)
		return i, err == nil
	}
	return 0, false
}

// limited reports whether the member has the tag, or the priority 0 with the same meaning.
func (m patroniMember) limited(tag, priority string) bool {
	if set, is := m.Tags[tag]; is {
		return set != false && set != "" && set != float64(0) && set != nil
	}
	n, is := patroniNumber(m.Tags[priority])
	return is && n <= 0
}

func (m patroniMember) nofailover() bool { return m.limited("nofailover", "failover_priority") }

func (m patroniMember) nosync() bool { return m.limited("nosync", "sync_priority") }

func (m patroniMember) standby() bool { return m.Role == "sync_standby" || m.Role == "quorum_standby" }

func (c patroniCluster) leader() string {
	for _, m := range c.Members {
		if m.Role == "leader" || m.Role == "standby_leader" {
			return m.Name
		}
	}
	return ""
}

func (c patroniCluster) member(name string) (patroniMember, bool) {
	for _, m := range c.Members {
		if m.Name == name {
			return m, true
		}
	}
	return patroniMember{}, false
}

// standsBy reports whether this is a standby cluster, whose leader is itself a replica.
func (c patroniCluster) standsBy() bool {
	m, _ := c.member(c.leader())
	return m.Role == "standby_leader"
}

// source is the member that m replicates from by its tag; empty: the leader.
func (c patroniCluster) source(m patroniMember) string {
	from, _ := m.Tags["replicatefrom"].(string)
	if _, found := c.member(from); !found || from == c.leader() || from == m.Name {
		return ""
	}
	return from
}

// eligible returns why name cannot take over from leader, by Patroni's own rules for a switchover;
// nil when it can. While there are synchronous standbys, in the quorum mode too, only they can
// (R56).
func (c patroniCluster) eligible(name string, leader patroniStatus) error {
	m, found := c.member(name)
	anyStandby := slices.ContainsFunc(c.Members, patroniMember.standby)
	switch {
	case !found:
		return errors.New("not a member")
	case m.nofailover():
		return errors.New("tagged nofailover")
	case !m.standby() && (anyStandby || c.config.synchronousOnly()) && m.nosync():
		return errors.New("tagged nosync, and the cluster replicates synchronously")
	case !m.standby() && anyStandby:
		return errors.New("not a synchronous standby")
	case !m.standby() && c.config.synchronousOnly():
		return errors.New("no replica is a synchronous standby now")
	case c.source(m) != "":
		return fmt.Errorf("it replicates from %s, not from the leader", c.source(m))
	case !leader.streams(name):
		return errors.New("not streaming from the leader")
	}
	return nil
}

// eligibleOther is nil if a member other than self may take over now, else why none may.
func (c patroniCluster) eligibleOther(self string, leader patroniStatus) error {
	var why []string
	for _, m := range c.Members {
		if m.Name == self {
			continue
		}
		err := c.eligible(m.Name, leader)
		if err == nil {
			return nil
		}
		why = append(why, m.Name+": "+err.Error())
	}
	return errors.New(strings.Join(why, "; "))
}

// anyMayLead reports that a member other than self may lead by its kind, in any state. If
// none may, the leader is the only one of its kind, and waiting for another would never end.
func (c patroniCluster) anyMayLead(self string) bool {
	return slices.ContainsFunc(c.Members, func(m patroniMember) bool {
		return m.Name != self && !m.nofailover() && c.source(m) == "" && (!c.config.synchronousOnly() || !m.nosync())
	})
}
