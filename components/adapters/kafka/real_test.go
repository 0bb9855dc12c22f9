package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cadre.dev/adapters/kafka"
	"cadre.dev/core/adapter"
)

// limit of each wait; an idle machine needs a tenth of it.
const limit = 2 * time.Minute

// node is one real broker and controller.
type node struct {
	*kafka.Adapter
	number             int
	dir                string
	broker, controller string
	process            *exec.Cmd
	ended              chan error
}

// cluster is three nodes on loopback, each a JVM of 256 MB.
type cluster struct {
	*testing.T
	java  string
	nodes []*node
}

// freeAddress is a loopback address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func found(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts three JVMs")
	}
	java, err := filepath.Abs("../../../.tools/kafka/kafka-java")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(java); err != nil {
		t.Skip("Kafka is not installed: run make tools-kafka")
	}
	c := &cluster{T: t, java: java}
	for i := range 3 {
		n := &node{number: i, dir: t.TempDir(), broker: freeAddress(t), controller: freeAddress(t)}
		c.nodes = append(c.nodes, n)
		n.Adapter, err = kafka.New(kafka.Config{
			Slot: fmt.Sprintf("kafka-%d", i), Roles: kafka.RolesBoth, Broker: n.broker, Controller: n.controller, Jars: filepath.Join(filepath.Dir(java), "lib"),
		})
		c.must("make the adapter", err)
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			if n.process != nil {
				_ = n.process.Process.Kill()
				<-n.ended
			}
			if t.Failed() {
				log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
				t.Logf("node %d:\n%s", n.number, log[max(0, len(log)-2000):])
			}
		}
	})
	for _, n := range c.nodes {
		c.format(n, true)
		c.start(n)
	}
	return c
}

func (c *cluster) must(doing string, err error) {
	c.Helper()
	if err != nil {
		c.Fatalf("%s: %v", doing, err)
	}
}

func directory(i int) string { return kafka.UUID(fmt.Sprint("test/kafka-", i)) }

// format makes the disk of a founder, or of a node that joins.
func (c *cluster) format(n *node, founds bool) {
	c.Helper()
	founders, bootstrap := make([]string, 3), make([]string, 3)
	for i, o := range c.nodes {
		bootstrap[i] = o.controller
		founders[i] = fmt.Sprintf("%d@%s:%s", i, o.controller, directory(i))
	}
	data := filepath.Join(n.dir, "data")
	properties := fmt.Sprintf(`process.roles=broker,controller
node.id=%d
listeners=BROKER://%[2]s,CONTROLLER://%[3]s
advertised.listeners=BROKER://%[2]s,CONTROLLER://%[3]s
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=BROKER
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=%[4]s
controller.quorum.auto.join.enable=true
log.dirs=%[5]s
offsets.topic.replication.factor=3
`, n.number, n.broker, n.controller, strings.Join(bootstrap, ","), data)
	c.must("write the settings", os.WriteFile(filepath.Join(n.dir, "properties"), []byte(properties), 0o600))
	args := []string{"kafka.tools.StorageTool", "format", "-c", filepath.Join(n.dir, "properties"), "-t", kafka.UUID("test")}
	if founds {
		args = append(args, "--initial-controllers", strings.Join(founders, ","))
	} else {
		args = append(args, "--no-initial-controllers")
	}
	cmd := exec.CommandContext(c.Context(), c.java, args...)
	cmd.Env = append(os.Environ(), "KAFKA_JVM=-Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
	out, err := cmd.CombinedOutput()
	c.must("format: "+string(out), err)
}

func (c *cluster) start(n *node) {
	c.Helper()
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	c.must("open the log", err)
	defer func() { _ = log.Close() }()
	n.process = exec.CommandContext(context.WithoutCancel(c.Context()), c.java, "kafka.Kafka", filepath.Join(n.dir, "properties"))
	n.process.Env = append(os.Environ(), "KAFKA_JVM=-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
	n.process.Stdout, n.process.Stderr = log, log
	n.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.must("start", n.process.Start())
	n.ended = make(chan error, 1)
	go func(p *exec.Cmd, ended chan error) { ended <- p.Wait() }(n.process, n.ended)
}

// stop ends a node by a signal and waits for it.
func (c *cluster) stop(n *node, signal os.Signal) {
	c.Helper()
	c.must("signal", n.process.Process.Signal(signal))
	select {
	case <-n.ended:
		n.process = nil
	case <-time.After(limit):
		c.Fatalf("node %d did not end by %s", n.number, signal)
	}
}

func (n *node) view(t *testing.T) adapter.Member {
	t.Helper()
	m, err := n.Member(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// await waits until the node's member is as wanted.
func (c *cluster) await(n *node, what string, is func(adapter.Member) bool) adapter.Member {
	c.Helper()
	end := time.Now().Add(limit)
	for {
		m := n.view(c.T)
		if is(m) {
			return m
		}
		if time.Now().After(end) {
			c.Fatalf("kafka-%d: %s did not come: %+v", n.number, what, m)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func well(m adapter.Member) bool {
	return m.Ready && m.CaughtUp != nil && *m.CaughtUp && m.MayDisrupt && len(m.Voters) == 3 && len(m.Learners) == 0 && (m.Role == adapter.RoleLeader || m.Role == adapter.RoleFollower)
}

// settled waits until all nodes are well, and returns the leader and the others.
func (c *cluster) settled() (leader *node, others []*node) {
	c.Helper()
	for _, n := range c.nodes {
		if m := c.await(n, "a healthy member", well); m.Role == adapter.RoleLeader {
			leader = n
		} else {
			others = append(others, n)
		}
	}
	if leader == nil || len(others) != 2 {
		c.Fatalf("%d followers", len(others))
	}
	return leader, others
}

func (c *cluster) client(options ...kgo.Opt) *kgo.Client {
	c.Helper()
	seeds := make([]string, 3)
	for i, n := range c.nodes {
		seeds[i] = n.broker
	}
	k, err := kgo.NewClient(append(options, kgo.SeedBrokers(seeds...), kgo.DisableClientMetrics())...)
	c.must("make a client", err)
	c.Cleanup(k.Close)
	return k
}

func (c *cluster) topic(k *kgo.Client, name string, replicas int16, minISR string) {
	c.Helper()
	q := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 3, replicas
	topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "min.insync.replicas", Value: &minISR}}
	q.Topics = append(q.Topics, topic)
	a, err := q.RequestWith(c.Context(), k)
	if err == nil && a.Topics[0].ErrorCode != 0 {
		err = fmt.Errorf("code %d", a.Topics[0].ErrorCode)
	}
	c.must("create topic "+name, err)
}

// TestRealNodes: an idempotent producer writes while a follower stops and returns, the active controller stops, and a
// node loses its disk; the adapters see each, and each record is there once and in its order.
func TestRealNodes(t *testing.T) {
	c := found(t)
	leader, others := c.settled()
	k := c.client(kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	c.topic(k, "orders", 3, "2")
	c.settled()

	writing, stop := context.WithCancel(t.Context())
	var written [3]atomic.Int64
	done := make(chan error, 1)
	go func() {
		for {
			for p := range written {
				r := &kgo.Record{Topic: "orders", Partition: int32(p), Value: fmt.Append(nil, written[p].Load())}
				if err := k.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					done <- err
					return
				}
				written[p].Add(1)
			}
			if writing.Err() != nil {
				done <- nil
				return
			}
		}
	}()

	away, other := others[0], others[1]
	began := time.Now()
	c.stop(away, syscall.SIGTERM)
	t.Logf("a follower ended %.1f s after SIGTERM", time.Since(began).Seconds())
	for _, n := range []*node{leader, other} {
		m := c.await(n, "the refusal of another stop", func(m adapter.Member) bool { return !m.MayDisrupt })
		if !strings.Contains(m.MayDisruptReason, "orders-") || !strings.Contains(m.MayDisruptReason, "min.insync.replicas is 2") {
			t.Errorf("kafka-%d: %q", n.number, m.MayDisruptReason)
		}
	}
	if m := away.view(t); m.Liveness != adapter.Refused || m.MayDisrupt || m.Ready {
		t.Errorf("a node that ended: %+v", m)
	}
	began = time.Now()
	c.start(away)
	c.settled()
	t.Logf("all are well %.1f s after its start", time.Since(began).Seconds())

	before := leader.view(t).Epoch
	if _, err := leader.Transfer(t.Context(), adapter.TransferRequest{ExpectedLeader: "kafka-0"}); err == nil {
		t.Error("the active controller says that it handed over")
	}
	began = time.Now()
	c.stop(leader, syscall.SIGTERM)
	m := c.await(other, "another leader", func(m adapter.Member) bool { return m.Epoch > before && m.Leader != "" })
	t.Logf("the active controller ended, and %s leads %.1f s after SIGTERM", m.Leader, time.Since(began).Seconds())
	c.start(leader)
	leader, others = c.settled()
	if moved, err := others[0].Transfer(t.Context(), adapter.TransferRequest{}); err != nil || moved.Moved || moved.Leader != m.Leader {
		t.Errorf("a follower's transfer: %+v, %v; %s leads", moved, err, m.Leader)
	}

	lost := others[0]
	slot := fmt.Sprintf("kafka-%d", lost.number)
	was := leader.view(t).MemberIDs[slot]
	if was != directory(lost.number) {
		t.Errorf("%s is %s, and founded as %s", slot, was, directory(lost.number))
	}
	c.stop(lost, syscall.SIGKILL)
	c.must("lose the disk", os.RemoveAll(filepath.Join(lost.dir, "data")))
	c.must("remove another incarnation", leader.ChangeSet(t.Context(), adapter.SetRequest{Do: "remove", Slot: slot, Member: kafka.UUID("another")}))
	if m := leader.view(t); len(m.Voters) != 3 {
		t.Errorf("another incarnation's removal left %v", m.Voters)
	}
	for range 2 { // a repeated removal has no further effect
		c.must("remove the voter", leader.ChangeSet(t.Context(), adapter.SetRequest{Do: "remove", Slot: slot, Member: was}))
	}
	c.await(leader, "two voters", func(m adapter.Member) bool { return len(m.Voters) == 2 && !slices.Contains(m.Voters, slot) })
	c.format(lost, false)
	began = time.Now()
	c.start(lost)
	c.settled()
	t.Logf("all are well %.1f s after the start on another disk", time.Since(began).Seconds())
	if is := leader.view(t).MemberIDs[slot]; is == was || is == "" {
		t.Errorf("%s has the id %q, as before it lost its disk", slot, is)
	}

	stop()
	c.must("write", <-done)
	c.everyRecordOnce(&written)

	c.topic(k, "once", 1, "1")
	refused := 0
	for _, n := range c.nodes {
		if m := n.view(t); strings.Contains(m.MayDisruptReason, "too few replicas for any stop") {
			refused++
		}
	}
	if refused == 0 {
		t.Error("every node may stop, though partitions have one replica")
	}
}

// everyRecordOnce reads the topic from its start.
func (c *cluster) everyRecordOnce(written *[3]atomic.Int64) {
	c.Helper()
	from := map[int32]kgo.Offset{}
	for p := range written {
		from[int32(p)] = kgo.NewOffset().AtStart()
	}
	reader := c.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"orders": from}))
	var next [3]int64
	ctx, cancel := context.WithTimeout(c.Context(), limit)
	defer cancel()
	for next[0] < written[0].Load() || next[1] < written[1].Load() || next[2] < written[2].Load() {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil && !errors.Is(err, context.Canceled) {
			c.Fatalf("read: %v; %v of %v", err, next, []int64{written[0].Load(), written[1].Load(), written[2].Load()})
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if want := fmt.Append(nil, next[r.Partition]); !bytes.Equal(r.Value, want) {
				c.Fatalf("partition %d offset %d has %q, want %q", r.Partition, r.Offset, r.Value, want)
			}
			next[r.Partition]++
		})
	}
	c.Logf("%d, %d and %d records, each once and in its order", next[0], next[1], next[2])
}
