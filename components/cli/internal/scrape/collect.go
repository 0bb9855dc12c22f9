package scrape

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"cadre.dev/client"
)

// Asker asks one coordinator; client.Client is one.
type Asker interface {
	CoordinatorMetrics(ctx context.Context) (own client.Metrics, connected []string, err error)
	AgentMetrics(ctx context.Context, slots []string) ([]client.Metrics, error)
}

// Coordinator is a coordinator to ask.
type Coordinator struct {
	// Name stands for the slot while the coordinator does not answer.
	Name string
	Asker
}

// callsEach is the number of calls about agents that one coordinator gets at the same time.
const callsEach = 2

// Collect asks each coordinator for its figures, and for those of agents: each agent once, through
// one coordinator that it is connected to. The end of ctx ends the collection; nodes without an
// answer by then have a Problem. Coordinators that cannot be asked leave the figures of the others: a
// quarter of the time after the start, the agents of the coordinators that answered are asked. The
// result is sorted, coordinators first.
func Collect(ctx context.Context, coordinators []Coordinator) Collection {
	begin := time.Now()
	answers := make(chan answer, len(coordinators))
	for _, c := range coordinators {
		go func() { answers <- ask(ctx, c) }()
	}
	agents := agentAsker{assigned: map[string]bool{}}
	late := time.NewTimer(patience(ctx, begin))
	defer late.Stop()
	var out Collection
	var early []answer // answers that wait for the others
	seen, waits := map[string]bool{}, true
	for left := len(coordinators); left > 0 || waits; {
		if left == 0 {
			waits = false
			agents.ask(ctx, early)
			continue
		}
		select {
		case a := <-answers:
			left--
			if seen[a.node.Instance] {
				continue // without a list of them, the gateway may lead to one twice
			}
			seen[a.node.Instance] = true
			out.Nodes = append(out.Nodes, a.node)
			if early = append(early, a); !waits {
				agents.ask(ctx, []answer{a})
			}
		case <-late.C:
			waits = false
			agents.ask(ctx, early)
		}
	}
	agents.asking.Wait()
	byInstance := func(a, b Node) int { return strings.Compare(a.Instance, b.Instance) }
	slices.SortFunc(out.Nodes, byInstance)
	slices.SortFunc(agents.nodes, byInstance)
	out.Nodes = append(out.Nodes, agents.nodes...)
	out.Took = time.Since(begin)
	return out
}

// patience is how long agents wait for the answers of all coordinators.
func patience(ctx context.Context, begin time.Time) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return max(end.Sub(begin)/4, 0)
	}
	return 2 * time.Second
}

// agentAsker asks agents through coordinators. Only asking is for several goroutines.
type agentAsker struct {
	assigned map[string]bool
	asking   sync.WaitGroup
	mu       sync.Mutex
	nodes    []Node // guarded by mu
}

// ask begins to ask the agents of these coordinators that were not asked yet.
func (a *agentAsker) ask(ctx context.Context, present []answer) {
	for at, slots := range assign(present, a.assigned) {
		turns := make(chan struct{}, callsEach)
		asker := present[at].asker
		for some := range slices.Chunk(slots, client.MaxMetricsSlots) {
			a.asking.Go(func() {
				turns <- struct{}{}
				got := askAgents(ctx, asker, some)
				<-turns
				a.mu.Lock()
				defer a.mu.Unlock()
				a.nodes = append(a.nodes, got...)
			})
		}
	}
}

// answer is a coordinator's.
type answer struct {
	node      Node
	asker     Asker
	connected []string
}

func ask(ctx context.Context, c Coordinator) answer {
	own, connected, err := c.CoordinatorMetrics(ctx)
	if err != nil {
		return answer{node: Node{Instance: c.Name, Coordinator: true, Problem: firstLine(err.Error())}, asker: c}
	}
	return answer{node: nodeOf(own, own.Slot, true), asker: c, connected: connected}
}

// assign gives each agent to one coordinator that it is connected to: to the coordinator with the
// fewest agents so far. The result has the slots of each answer, without the slots in done, and adds
// them to done.
func assign(answers []answer, done map[string]bool) [][]string {
	out := make([][]string, len(answers))
	of := map[string][]int{}
	var all []string
	for i, a := range answers {
		for _, slot := range a.connected {
			if of[slot] == nil && !done[slot] {
				all = append(all, slot)
			}
			of[slot] = append(of[slot], i)
		}
	}
	for _, slot := range all {
		done[slot] = true
		best := of[slot][0]
		for _, i := range of[slot] {
			if len(out[i]) < len(out[best]) {
				best = i
			}
		}
		out[best] = append(out[best], slot)
	}
	return out
}

func askAgents(ctx context.Context, asker Asker, slots []string) []Node {
	got, err := asker.AgentMetrics(ctx, slots)
	out := make([]Node, 0, len(slots))
	for _, slot := range slots {
		i := slices.IndexFunc(got, func(m client.Metrics) bool { return m.Slot == slot })
		switch {
		case err != nil:
			out = append(out, Node{Instance: slot, Problem: firstLine(err.Error())})
		case i < 0:
			out = append(out, Node{Instance: slot, Problem: "the coordinator's answer lacks the slot"})
		default:
			out = append(out, nodeOf(got[i], slot, false))
		}
	}
	return out
}

func nodeOf(m client.Metrics, instance string, coordinator bool) Node {
	n := Node{Instance: instance, Coordinator: coordinator, Text: m.Text}
	if m.Error != "" {
		n.Text, n.Problem = nil, firstLine(m.Error)
	} else if n.Text == nil {
		n.Text = []byte{}
	}
	return n
}
