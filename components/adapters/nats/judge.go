package nats

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cadre.dev/core/adapter"
)

// lives: the peer answered lately, by the word of its group's leader.
func (p peer) lives() bool { return !p.Offline && p.Active > 0 && p.Active < liveFor }

// holds: the peer lives, and has all entries except the last maxLag.
func (p peer) holds(maxLag uint64) bool { return p.lives() && !p.Pending && p.Lag <= maxLag }

// known: NATS knows the peer's name. Until then the name is a sentence.
func (p peer) known() bool { return p.Name != "" && !strings.Contains(p.Name, " ") }

// replicated is one raft group: a stream, a consumer or the meta group.
type replicated struct {
	// name for people, such as "stream ORDERS/events".
	name string
	// want is the number of replicas that the configuration asks for.
	want int
	// leader by the word of a server that leads it itself; "" where no such answer came.
	leader string
	// others are the replicas apart from the leader, as the leader sees them.
	others []peer
}

// safeWithout returns why the group would stop without the server self; "": it would go on, or it has
// too few replicas to ever go on.
func (g replicated) safeWithout(self string, maxLag uint64) string {
	if g.want < 3 {
		return ""
	}
	if g.leader == "" {
		return "no server says that it leads " + g.name
	}
	left := 0
	var missing []string
	if g.leader != self {
		left++
	}
	for _, p := range g.others {
		switch {
		case p.Name == self:
		case p.holds(maxLag):
			left++
		default:
			missing = append(missing, p.text())
		}
	}
	need := g.want/2 + 1
	if left >= need {
		return ""
	}
	why := fmt.Sprintf("%s would have %d of %d current replicas", g.name, left, g.want)
	if len(missing) > 0 {
		why += "; not current: " + strings.Join(missing, ", ")
	}
	return why
}

// silentAbout returns why the group's leader does not report whether the server self has caught up; "": it does.
func (g replicated) silentAbout(self string) string {
	switch {
	case g.leader == "":
		return "no server says that it leads " + g.name
	case g.leader != self && !slices.ContainsFunc(g.others, func(p peer) bool { return p.Name == self }):
		return "the leader of " + g.name + " does not list this server"
	}
	return ""
}

// text describes a replica that is not current, without figures: each change of a Member is reported.
func (p peer) text() string {
	name := p.ID
	if p.known() {
		name = p.Name
	}
	switch {
	case !p.lives():
		return name + " (does not answer)"
	case p.Pending:
		return name + " (joins)"
	}
	return name + " (catches up)"
}

// size is the number of replicas; 0 where there is no group. Without a leader the list is complete.
func (r *raft) size() int {
	switch {
	case r == nil:
		return 0
	case r.Leader == "":
		return len(r.Replicas)
	}
	return 1 + len(r.Replicas)
}

// groupsOf returns the groups that server self holds a replica of, sorted by name, each as its leader
// sees it.
func groupsOf(self string, servers map[string]jsz) []replicated {
	all := map[string]*replicated{}
	mine := map[string]bool{}
	add := func(server, name string, want int, r *raft) {
		if r == nil {
			return
		}
		g := all[name]
		if g == nil {
			g = &replicated{name: name}
			all[name] = g
		}
		g.want = max(g.want, want)
		mine[name] = mine[name] || server == self
		if r.Leader == server {
			g.leader, g.others = server, r.Replicas
			// A server that has just begun does not know all of its replicas.
			mine[name] = mine[name] || slices.ContainsFunc(r.Replicas, func(p peer) bool { return p.Name == self })
		}
	}
	for server, answer := range servers {
		for _, account := range answer.Accounts {
			for _, s := range account.Streams {
				want := 0
				if s.Config != nil {
					want = s.Config.Replicas
				}
				add(server, "stream "+account.Name+"/"+s.Name, want, s.Cluster)
				for _, c := range s.Consumers {
					// A consumer has the replicas of its stream, or fewer.
					add(server, "consumer "+account.Name+"/"+s.Name+"/"+c.Name, c.Cluster.size(), c.Cluster)
				}
			}
		}
	}
	var groups []replicated
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if mine[name] {
			groups = append(groups, *all[name])
		}
	}
	return groups
}

// judge returns the Member that the answers show.
func judge(slot string, maxLag uint64, s seen) adapter.Member {
	m := adapter.Member{Role: adapter.RoleUnknown}
	m.Liveness, m.Message = livenessOf(s.varzErr)
	stop := func(format string, args ...any) adapter.Member {
		m.Message = fmt.Sprintf(format, args...)
		m.MayDisruptReason = m.Message
		return m
	}
	if s.varzErr != nil {
		return stop("%s", m.Message)
	}
	m.Version = s.varz.Version
	self := s.varz.Name
	switch {
	case slotOf(self) != slot:
		// No quorum is asked: a corrected configuration must reach this server.
		m.MayDisrupt, m.Message = true, fmt.Sprintf("the server is named %q; its name must be %s, or %s_ and three hexadecimal digits of this disk", self, slot, slot)
		return m
	case s.selfErr != nil:
		if timedOut(s.selfErr) { // a process that began to hang
			m.Liveness = adapter.Unknown
		}
		return stop("JetStream's state is not known: %v", s.selfErr)
	case s.self.Disabled:
		m.MayDisrupt, m.Message = true, "JetStream is disabled: the server was removed from the meta group, or its configuration has no jetstream block"
		return m
	case s.self.Meta == nil:
		m.MayDisrupt, m.Message = true, "the server runs JetStream outside of a cluster: its configuration needs a cluster block"
		return m
	}
	m.Epoch = s.term
	listed := s.listMembers(&m, slot)
	meta := s.self.Meta
	switch {
	case listed && meta.Leader == "":
		return stop("the servers have no meta leader")
	case !listed:
		m.MayDisrupt = true
		m.Message = "the meta group does not list this server: NATS keeps a removed name out for five minutes"
		return m
	case s.serversErr != nil:
		return stop("%v", s.serversErr)
	}
	if _, answered := s.servers[self]; !answered {
		// Only this server's own answer names the groups that it leads.
		return stop("this server gave no answer to the system account: the streams that it leads are not known")
	}
	m.Role = adapter.RoleFollower
	if meta.Leader == self {
		m.Role = adapter.RoleLeader
		for _, p := range meta.Replicas {
			if p.lives() && p.known() {
				m.Followers = append(m.Followers, slotOf(p.Name))
			}
		}
		slices.Sort(m.Followers)
		m.Followers = slices.Compact(m.Followers)
	}
	m.Ready = true
	s.judgeGroups(&m, maxLag)
	return m
}

// listMembers fills in leader, voters and ids, and reports whether the meta group lists this server.
// While there is a leader, a server's own list leaves the server out, and so does the list of a server
// that is no member; the size separates the two cases. Without a leader the list is complete.
func (s seen) listMembers(m *adapter.Member, slot string) (listed bool) {
	meta := s.self.Meta
	m.MemberIDs = map[string]string{}
	id, peers := s.id, []peer{}
	for _, p := range meta.Replicas {
		if p.Name == s.varz.Name || s.id != "" && p.ID == s.id {
			listed, id = true, p.ID
			continue
		}
		peers = append(peers, p)
	}
	if meta.Leader != "" {
		m.Leader = slotOf(meta.Leader)
		listed = len(meta.Replicas) < meta.Size
	}
	if listed {
		m.Voters = append(m.Voters, slot)
		if id != "" {
			m.MemberIDs[slot] = id
		}
	}
	// Of two servers with disks of one slot, the living is the member.
	slices.SortStableFunc(peers, func(a, b peer) int { return cmp.Compare(rank(a), rank(b)) })
	for _, p := range peers {
		name := p.ID // refused by the agent, which names it
		if p.known() {
			name = slotOf(p.Name)
		}
		if slices.Contains(m.Voters, name) {
			m.Fault = fmt.Sprintf("the meta group counts the server %s of an earlier disk: remove it with nats server cluster peer-remove %s", p.Name, p.ID)
			continue
		}
		m.Voters = append(m.Voters, name)
		m.MemberIDs[name] = p.ID
	}
	slices.Sort(m.Voters)
	return listed
}

func rank(p peer) int {
	if p.lives() {
		return 0
	}
	return 1
}

// judgeGroups fills in whether this server has caught up, and whether it may go.
func (s seen) judgeGroups(m *adapter.Member, maxLag uint64) {
	self := s.varz.Name
	groups := groupsOf(self, s.servers)
	meta := replicated{name: "the meta group", want: s.self.Meta.Size}
	if lead, answered := s.servers[s.self.Meta.Leader]; answered && lead.Meta != nil && lead.Meta.Leader == s.self.Meta.Leader {
		meta.leader, meta.others = lead.Meta.Leader, lead.Meta.Replicas
	}
	groups = append(groups, meta)

	// The leaders' answers show whether a replica has caught up. /healthz calls a replica unhealthy that is an entry behind.
	if s.healthErr != nil || s.health.Status != "ok" {
		m.Fault = "healthz: " + cmp.Or(s.health.Error, s.health.Status, fmt.Sprint(s.healthErr))
	}
	behind, notKnown, unsafe, few := "", "", 0, 0
	for _, g := range groups {
		if why := g.safeWithout(self, maxLag); why != "" {
			if unsafe++; unsafe == 1 {
				m.MayDisruptReason = why
			}
		}
		if g.want < 3 && strings.HasPrefix(g.name, "stream ") {
			if few++; m.Fault == "" {
				m.Fault = fmt.Sprintf("%s has %d of the 3 replicas that a rollout needs: it stops while its server restarts", g.name, g.want)
			}
		}
		if why := g.silentAbout(self); why != "" && notKnown == "" {
			notKnown = why
		}
		for _, p := range g.others {
			switch {
			case p.Name == self && !p.holds(maxLag):
				behind = g.name + ": " + p.text()
			case p.Name != self && p.lives() && !p.holds(maxLag) && len(m.Busy) < adapter.MaxMembers:
				m.Busy = append(m.Busy, short(g.name+": "+p.text()))
			}
		}
	}
	// One leader that counts the replica as behind is enough; all leaders prove the opposite.
	switch caughtUp := behind == ""; {
	case !caughtUp:
		m.CaughtUp, m.Message = &caughtUp, behind
	case notKnown != "":
		m.Message = "whether this server has caught up is not known: " + notKnown
	default:
		m.CaughtUp = &caughtUp
	}
	m.MayDisruptReason = more(m.MayDisruptReason, unsafe)
	if strings.HasPrefix(m.Fault, "stream ") {
		m.Fault = more(m.Fault, few)
	}
	m.MayDisrupt = unsafe == 0
}

// more adds the number of further cases.
func more(text string, cases int) string {
	if cases > 1 {
		return fmt.Sprintf("%s (and %d more)", text, cases-1)
	}
	return text
}

// short keeps a text of Busy within the bound of names.
func short(text string) string {
	text = adapter.Text(text)
	return strings.ToValidUTF8(text[:min(len(text), adapter.MaxName)], "")
}
