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
// answer by then have a Problem. Coordinators that cannot be asked leave the figures of the others.
// The result is sorted, coordinators first.
func Collect(ctx context.Context, coordinators []Coordinator) Collection {
	begin := time.Now()
	answers := make([]answer, len(coordinators))
	var asking sync.WaitGroup
	for i, c := range coordinators {
		asking.Go(func() { answers[i] = ask(ctx, c) })
	}
	asking.Wait()

	var out Collection
	seen := map[string]bool{}
	var present []answer
	for _, a := range answers {
		if !seen[a.node.Instance] { // without a list of them, the gateway may lead to one twice
			seen[a.node.Instance] = true
			out.Nodes = append(out.Nodes, a.node)
			present = append(present, a)
		}
	}
	var mu sync.Mutex // guards agents
	var agents []Node
	for at, slots := range assign(present) {
		turns := make(chan struct{}, callsEach)
		asker := present[at].asker
		for some := range slices.Chunk(slots, client.MaxMetricsSlots) {
			asking.Go(func() {
				turns <- struct{}{}
				got := askAgents(ctx, asker, some)
				<-turns
				mu.Lock()
				defer mu.Unlock()
				agents = append(agents, got...)
			})
		}
	}
	asking.Wait()
	byInstance := func(a, b Node) int { return strings.Compare(a.Instance, b.Instance) }
	slices.SortFunc(out.Nodes, byInstance)
	slices.SortFunc(agents, byInstance)
	out.Nodes = append(out.Nodes, agents...)
	out.Took = time.Since(begin)
	return out
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
// fewest agents so far. The result has the slots of each answer.
func assign(answers []answer) [][]string {
	out := make([][]string, len(answers))
	of := map[string][]int{}
	var all []string
	for i, a := range answers {
		for _, slot := range a.connected {
			if of[slot] == nil {
				all = append(all, slot)
			}
			of[slot] = append(of[slot], i)
		}
	}
	for _, slot := range all {
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
