package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cadre.dev/core/adapter"
)

// healthy are the facts of three nodes of which 0 leads, seen from any.
func healthy() facts {
	at := 100 * time.Hour
	return facts{
		level: 25, nodes: map[int32]bool{0: false, 1: false, 2: false},
		partitions: []partition{{topic: "orders", number: 3, leader: 0, replicas: []int32{0, 1, 2}, isr: []int32{0, 1, 2}, minISR: 2}},
		quorum: &quorum{leader: 0, epoch: 7, voters: []replica{
			{0, "a", at, at}, {1, "b", at - time.Second, at - time.Second}, {2, "c", at, at},
		}},
	}
}

func TestMemberFollowsFromTheFacts(t *testing.T) {
	lost := errors.New("request timed out")
	for _, c := range []struct {
		name string
		// self is 1 unless leads.
		leads  bool
		config Config
		change func(*facts)
		want   string
	}{
		{"a leader", true, Config{}, func(*facts) {}, "leader ready caught-up may-stop"},
		{"a follower", false, Config{}, func(*facts) {}, "follower ready caught-up may-stop"},
		{"no process", false, Config{}, func(f *facts) { f.live = fmt.Errorf("dial: %w", syscall.ECONNREFUSED) }, "unknown refused: Kafka does not answer"},
		{"no process of a controller alone", false, Config{Roles: RolesController}, func(f *facts) { f.live = fmt.Errorf("dial: %w", syscall.ECONNREFUSED) }, "unknown refused: Kafka does not answer"},
		{"a broker alone that may recover its logs", false, Config{Roles: RolesBroker}, func(f *facts) { f.live = fmt.Errorf("dial: %w", syscall.ECONNREFUSED) }, "unknown unknown: Kafka does not answer"},
		{"no answer", false, Config{}, func(f *facts) { f.live = lost }, "unknown unknown: Kafka does not answer"},
		{"no quorum", false, Config{}, func(f *facts) { f.quorum, f.quorumErr = nil, lost }, "unknown: the quorum of controllers is not known: request timed out"},
		{"fenced", false, Config{}, func(f *facts) { f.nodes[1] = true }, "follower caught-up may-stop: the broker is fenced"},
		{"not registered", false, Config{}, func(f *facts) { delete(f.nodes, 1) }, "follower caught-up may-stop: the broker is not registered"},
		{"partition at its minimum", false, Config{}, func(f *facts) { f.partitions[0].isr = []int32{0, 1} }, "follower ready caught-up: orders-3 would keep 1 in-sync replicas, and its min.insync.replicas is 2"},
		{"this one is the missing replica", false, Config{}, func(f *facts) { f.partitions[0].isr = []int32{0, 2} }, "follower ready behind may-stop: the broker is out of sync in orders-3"},
		{"below its minimum already", false, Config{}, func(f *facts) { f.partitions[0].isr = []int32{0} }, "follower ready behind: the broker is out of sync in orders-3: orders-3 would keep 1 in-sync replicas, and its min.insync.replicas is 2 fault: writes are refused in orders-3"},
		{"one replica alone", false, Config{}, func(f *facts) {
			f.partitions = append(f.partitions, partition{topic: "once", replicas: []int32{1}, isr: []int32{1}, minISR: 1})
		}, "follower ready caught-up: once-0 would keep 0 in-sync replicas, and its min.insync.replicas is 1: it has too few replicas for any stop"},
		{"one replica alone, accepted", false, Config{AcceptSingle: true}, func(f *facts) {
			f.partitions = append(f.partitions, partition{topic: "once", replicas: []int32{1}, isr: []int32{1}, minISR: 1})
		}, "follower ready caught-up may-stop"},
		{"a partition that waits comes before one that waits for ever", false, Config{}, func(f *facts) {
			f.partitions[0].isr = []int32{0, 1}
			f.partitions = append([]partition{{topic: "once", replicas: []int32{1}, isr: []int32{1}, minISR: 1}}, f.partitions...)
		}, "orders-3 would keep 1 in-sync replicas, and its min.insync.replicas is 2 (and 1 more partitions)"},
		{"partitions not known", false, Config{}, func(f *facts) { f.partitions, f.partitionsErr = nil, lost }, "follower ready: the partitions are not known"},
		{"reassigned", false, Config{}, func(f *facts) { f.moving = []string{"orders-3"} }, "follower ready caught-up may-stop busy: reassigns orders-3"},
		{"reassignments not known", false, Config{}, func(f *facts) { f.movingErr = lost }, "follower ready caught-up: the reassignments are not known"},
		{"an old log of the controller", false, Config{}, func(f *facts) { f.quorum.voters[1].at -= 3 * time.Second }, "follower ready behind may-stop: the controller's log is behind"},
		{"a new directory of a voter", false, Config{}, func(f *facts) {
			f.quorum.voters[1].fetched, f.quorum.voters[1].at = -time.Millisecond, -time.Millisecond
			f.quorum.observers = []replica{{1, "d", 100 * time.Hour, 100 * time.Hour}}
		}, "unknown behind may-stop: the voter of this node has another directory"},
		{"it joins", false, Config{}, func(f *facts) {
			f.quorum.observers, f.quorum.voters = f.quorum.voters[1:2], []replica{f.quorum.voters[0], f.quorum.voters[2]}
		}, "learner ready behind may-stop: the controller has no vote yet busy: kafka-1 joins"},
		{"a static quorum", false, Config{}, func(f *facts) {
			for i := range f.quorum.voters {
				f.quorum.voters[i].directory = "AAAAAAAAAAAAAAAAAAAAAA"
			}
		}, "follower ready caught-up may-stop"},
		{"another one joins", false, Config{}, func(f *facts) {
			f.quorum.observers = []replica{{3, "d", 100 * time.Hour, 100 * time.Hour}, {4, "gone", time.Hour, time.Hour}, {1003, "of another group", 100 * time.Hour, 100 * time.Hour}}
		}, "follower ready caught-up may-stop busy: kafka-3 joins"},
		{"a broker alone", false, Config{Roles: RolesBroker}, func(*facts) {}, "none ready caught-up may-stop"},
		{"a controller alone", false, Config{Roles: RolesController}, func(f *facts) {
			*f = facts{quorum: f.quorum, level: f.level}
		}, "follower ready caught-up may-stop"},
		{"a controller alone without quorum", false, Config{Roles: RolesController}, func(f *facts) { *f = facts{quorumErr: lost} }, "unknown: the quorum of controllers is not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := healthy()
			c.change(&f)
			self := int32(1)
			if c.leads {
				self = 0
			}
			if c.config.Roles == "" {
				c.config.Roles = RolesBoth
			}
			m := judge(c.config, names{group: "kafka"}, self, "4.0.0", f)
			if got := short(m); !strings.Contains(got, c.want) {
				t.Errorf("\ngot  %s\nwant %s", got, c.want)
			}
			if err := m.CheckOf(names{group: "kafka"}.of(self), c.config.Roles != RolesBroker); err != nil {
				t.Errorf("an agent refuses it: %v", err)
			}
			if m.MayDisrupt != (m.MayDisruptReason == "") {
				t.Errorf("may_disrupt %t with the reason %q", m.MayDisrupt, m.MayDisruptReason)
			}
		})
	}
}

// short writes the fields that the cases are about.
func short(m adapter.Member) string {
	words := []string{m.Role}
	add := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	add(m.Liveness != adapter.Alive, m.Liveness)
	add(m.Ready, "ready")
	if m.CaughtUp != nil {
		add(*m.CaughtUp, "caught-up")
		add(!*m.CaughtUp, "behind")
	}
	add(m.MayDisrupt, "may-stop")
	out := strings.Join(words, " ")
	for _, text := range []string{m.Message, m.MayDisruptReason} {
		if text != "" && !strings.HasSuffix(out, ": "+text) {
			out += ": " + text
		}
	}
	if m.Fault != "" {
		out += " fault: " + m.Fault
	}
	if len(m.Busy) > 0 {
		out += " busy: " + strings.Join(m.Busy, ", ")
	}
	return out
}

func TestLeaderNamesTheSetAndItsFollowers(t *testing.T) {
	f := healthy()
	f.quorum.voters[2].fetched -= 3 * time.Second
	m := judge(Config{Roles: RolesBoth}, names{group: "kafka"}, 0, "4.0.0", f)
	got := fmt.Sprintln(m.Leader, m.Epoch, m.Voters, m.Followers, m.MemberIDs, m.DataFormat, m.Version)
	if want := "kafka-0 7 [kafka-0 kafka-1 kafka-2] [kafka-1] map[kafka-0:a kafka-1:b kafka-2:c] 4.0-IV3 4.0.0\n"; got != want {
		t.Errorf("\ngot  %s\nwant %s", got, want)
	}
}

func TestTextsKeepTheBoundsOfTheContract(t *testing.T) {
	f := healthy()
	f.partitions[0].topic, f.partitions[0].isr = strings.Repeat("ä", 500), []int32{1}
	f.moving = slices.Repeat([]string{f.partitions[0].topic + "-7", "orders\n-1"}, 500)
	for i := range int32(100) {
		f.quorum.observers = append(f.quorum.observers, replica{10 + i, fmt.Sprint("id", i), 100 * time.Hour, 100 * time.Hour})
	}
	m := judge(Config{Roles: RolesBoth}, names{group: "kafka"}, 1, "4.0.0", f)
	if err := m.CheckOf("kafka-1", true); err != nil || !strings.HasPrefix(m.MayDisruptReason, "ää") {
		t.Errorf("%q is refused: %v", m.MayDisruptReason, err)
	}
}

func TestSettingsAreRefusedWithTheirNames(t *testing.T) {
	_, err := New(Config{Slot: "kafka", Roles: "zookeeper", NodeBase: -1, Broker: "here", Controller: ""})
	for _, want := range []string{"slot:", "roles:", "node base:", "broker address:", "controller address:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	for slot, want := range map[string]bool{"kafka-0": true, "kafka-999": true, "kafka-1000": false, "kafka--1": false, "other-1": false, "kafka-x": false} {
		if _, got := (names{group: "kafka", base: 3000}).node(slot); got != want {
			t.Errorf("%s: known %t", slot, got)
		}
	}
}

func TestDataFormatsHaveKafkasNames(t *testing.T) {
	for level, want := range map[int16]string{0: "", 7: "3.3-IV3", 21: "3.9-IV0", 25: "4.0-IV3", 27: "4.1-IV1", 29: "4.2-IV1", 30: "4.3-IV0", 33: "4.4-IV2", 34: "level 34"} {
		if got := formatName(level); got != want {
			t.Errorf("level %d: %q, want %q", level, got, want)
		}
	}
}

func TestFoundersComputeTheSameIDs(t *testing.T) {
	a, b := UUID("cluster/kafka/kafka-0"), UUID("cluster/kafka/kafka-1")
	if a == b || a != UUID("cluster/kafka/kafka-0") || len(a) != 22 || a[0] == '-' {
		t.Errorf("%s and %s", a, b)
	}
	if _, err := parseUUID(a); err != nil {
		t.Error(err)
	}
	if _, err := parseUUID("short"); err == nil {
		t.Error("a short id is accepted")
	}
}
