package scrape

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/proto"
)

// Node has the figures of one process.
type Node struct {
	// Instance is the slot, for a coordinator too: the label of its figures.
	Instance    string
	Coordinator bool
	// Text is in Prometheus' text exposition format and foreign; nil: there are no figures.
	Text []byte
	// Problem is why there are none, or the fault in them; empty: no fault.
	Problem string
}

// Collection is the result of one round of questions.
type Collection struct {
	Nodes []Node
	// Problems are those of no node, such as an unreadable list of coordinators.
	Problems []string
	Took     time.Duration
}

// Healthy reports whether the figures of a coordinator arrived.
func (c Collection) Healthy() bool {
	return slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.Coordinator && n.Text != nil })
}

// All returns each problem as one line, sorted.
func (c Collection) All() []string {
	out := slices.Clone(c.Problems)
	for _, n := range c.Nodes {
		if n.Problem != "" {
			out = append(out, n.Instance+": "+n.Problem)
		}
	}
	slices.Sort(out)
	return out
}

// agentPrefixes are those of all figures of agents. An agent runs in a CVM with a workload, and must
// not speak for coordinators: another family is dropped.
var agentPrefixes = []string{"cadre_agent_", "cadre_route_", "cadre_overlay_", "envoy_"}

// ownPrefix is that of the figures that Merge adds.
const ownPrefix = "cadre_scrape_"

// ownLabels are the labels that a node cannot set. With honor_labels, a Prometheus would take its job
// from the text too. As for a Prometheus without honor_labels, a node's own label gets the prefix
// exported_.
var ownLabels = []string{"cluster", "instance", "job"}

// Merge returns the figures of all nodes as one text, with the labels cluster and instance on each,
// and figures about the collection. The lines HELP and TYPE are those of the first node that has the
// family; a family of another type under the same name is dropped, and the node's Problem counts dropped
// families. Timestamps are dropped too. Merge needs c's nodes sorted, coordinators first.
func Merge(cluster string, c *Collection) ([]byte, error) {
	merged := map[string]*dto.MetricFamily{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Text == nil {
			continue
		}
		families, err := expfmtParse(n.Text)
		if err != nil {
			n.Text, n.Problem = nil, "the figures are not in Prometheus' text format: "+firstLine(err.Error())
			continue
		}
		var dropped []string
		for _, name := range slices.Sorted(maps.Keys(families)) {
			if !take(merged, families[name], cluster, n) {
				dropped = append(dropped, name)
			}
		}
		if len(dropped) > 0 {
			n.Problem = fmt.Sprintf("%d families of figures were dropped, %s first: their type differs from another node's, or the name is reserved", len(dropped), clip(dropped[0], 80))
		}
	}
	for _, f := range own(cluster, *c) {
		merged[f.GetName()] = f
	}
	var out bytes.Buffer
	encoder := expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		if err := encoder.Encode(merged[name]); err != nil {
			return nil, fmt.Errorf("write the figures of %s: %w", name, err)
		}
	}
	return out.Bytes(), nil
}

// expfmtParse reads a foreign text; labels and names of Prometheus 2 only.
func expfmtParse(text []byte) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// take adds a node's family; false: the family cannot be added.
func take(merged map[string]*dto.MetricFamily, family *dto.MetricFamily, cluster string, n *Node) bool {
	name := family.GetName()
	if strings.HasPrefix(name, ownPrefix) {
		return false
	}
	if !n.Coordinator && !slices.ContainsFunc(agentPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return false
	}
	into := merged[name]
	if into == nil {
		into = &dto.MetricFamily{Name: family.Name, Help: family.Help, Type: family.Type}
		merged[name] = into
	}
	if into.GetType() != family.GetType() {
		return false
	}
	for _, m := range family.GetMetric() {
		m.TimestampMs = nil
		m.Label = label(m.GetLabel(), cluster, n.Instance)
		into.Metric = append(into.Metric, m)
	}
	return true
}

// label adds the labels cluster and instance, and sorts all by name.
func label(labels []*dto.LabelPair, cluster, instance string) []*dto.LabelPair {
	used := map[string]bool{}
	for _, l := range labels {
		used[l.GetName()] = true
	}
	out := []*dto.LabelPair{pair("cluster", cluster), pair("instance", instance)}
	for _, l := range labels {
		name := l.GetName()
		if strings.HasPrefix(name, "__") || l.GetValue() == "" {
			continue // Prometheus' own labels; an empty one is none
		}
		if slices.Contains(ownLabels, name) {
			for used[name] {
				name = "exported_" + name
			}
			used[name] = true
		}
		out = append(out, pair(name, l.GetValue()))
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

// own returns the figures about the collection.
func own(cluster string, c Collection) []*dto.MetricFamily {
	up := gauge("cadre_scrape_up", "1 if the figures of the coordinator, or of the connected agent, arrived in this scrape.", "instance")
	for _, n := range c.Nodes {
		value := 0.0
		if n.Text != nil {
			value = 1
		}
		add(up, value, pair("cluster", cluster), pair("instance", n.Instance))
	}
	errors := gauge("cadre_scrape_errors", "Problems of this scrape, such as silent coordinators and agents.")
	add(errors, float64(len(c.All())), pair("cluster", cluster))
	took := gauge("cadre_scrape_duration_seconds", "How long the collection took.")
	add(took, c.Took.Seconds(), pair("cluster", cluster))
	if len(up.GetMetric()) == 0 {
		return []*dto.MetricFamily{errors, took}
	}
	return []*dto.MetricFamily{up, errors, took}
}

// gauge makes a family. The labels are for the search of docs/guides/monitoring.md's test.
func gauge(name, help string, _ ...string) *dto.MetricFamily {
	return &dto.MetricFamily{Name: proto.String(name), Help: proto.String(help), Type: dto.MetricType_GAUGE.Enum()}
}

func add(f *dto.MetricFamily, value float64, labels ...*dto.LabelPair) {
	f.Metric = append(f.Metric, &dto.Metric{Label: labels, Gauge: &dto.Gauge{Value: proto.Float64(value)}})
}

func pair(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: proto.String(name), Value: proto.String(value)}
}

// firstLine is a foreign text on one line of bounded length.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return clip(line, 300)
}

func clip(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "..."
}
