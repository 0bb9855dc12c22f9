package groupfile

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"cadre.dev/attest"
)

// Cluster is one cluster block. The coordinators' template depends on facts that exist only once
// the cluster is created, so Coordinator evaluates it at that time.
type Cluster struct {
	Name     string          `json:"name"`
	Platform ClusterPlatform `json:"platform"`
	Gateway  ClusterGateway  `json:"gateway"`
	// Trust lacks the fields that creation adds (Cluster, CoordinatorAppID, OperatorTokenSHA256),
	// and CoordinatorComposeHashes and ClusterID, which are for workloads' trust files.
	Trust attest.Trust `json:"trust"`

	coordinator func(Facts) (Coordinator, error)
	block       hcl.Range
}

// ClusterGateway is the way to CVMs from outside.
type ClusterGateway struct {
	Domain string `json:"domain"`
	// Address to dial instead of resolving names; empty on the real platform.
	Address string `json:"address"`
}

// Coordinator is the template of the coordinators.
type Coordinator struct {
	// Replicas is odd: 1, 3 or 5; default 3.
	Replicas     int               `json:"replicas"`
	Compose      string            `json:"compose"`
	InstanceType string            `json:"instance_type"`
	OSImage      string            `json:"os_image"`
	DiskGB       int               `json:"disk_gb"`
	Env          map[string]string `json:"env"`
}

// Facts become the object "cadre" in the coordinator block.
type Facts struct {
	// Cluster is cadre.cluster; CoordinatorAppID cadre.coordinator_app_id.
	Cluster          string
	CoordinatorAppID string
	// TrustJSON is cadre.trust_json: the whole trust file.
	TrustJSON string
	// PlatformAPI is cadre.platform_api, and PlatformAPIKey cadre.platform_api_key, for the coordinators'
	// encrypted env: how they find their platform, and its key or token.
	PlatformAPI    string
	PlatformAPIKey string
}

// Coordinator evaluates the coordinator block with the facts of creation.
func (c Cluster) Coordinator(f Facts) (Coordinator, error) { return c.coordinator(f) }

var clusterBlocks = []string{"platform", "gateway", "coordinator", "trust"}

func (l *loader) cluster(ctx *hcl.EvalContext, b *hclsyntax.Block) (Cluster, bool) {
	if len(b.Labels) != 1 {
		l.add(b.DefRange(), "Cluster without a name", `write: cluster "name" { ... }`)
		return Cluster{}, false
	}
	before := len(l.diags)
	out := Cluster{Name: b.Labels[0], block: b.DefRange()}
	out.Name = l.clusterName(ctx, b)
	blocks := l.clusterBlocks(b)
	d := &decoder{loader: l, ctx: ctx, ranges: map[string]hcl.Range{}}
	if p := blocks["platform"]; p != nil {
		out.Platform = l.clusterPlatform(ctx, p)
	}
	if g := blocks["gateway"]; g != nil {
		into(d, g, &out.Gateway) // the domain is optional: the platform names one
	}
	if t := blocks["trust"]; t != nil {
		// Creation adds the first three. The last two are unknown before it: the cluster ID, and
		// the coordinators' compose hash, which cannot be a part of the text that it hashes.
		into(d, t, &out.Trust, "cluster", "coordinator_app_id", "operator_token_sha256", "coordinator_compose_hashes", "cluster_id")
		out.Trust.Cluster = out.Name
		if out.Trust.KeyProvider.Name == "" || out.Trust.KeyProvider.ID == "" {
			l.add(t.DefRange(), "Key provider is not pinned", "add key_provider { name = ... id = ... }: without it a host can run the same compose under its own keys")
		}
	}
	if c := blocks["coordinator"]; c != nil {
		out.coordinator = func(f Facts) (Coordinator, error) { return l.coordinator(ctx, c, f) }
		// With unknown facts, every other fault is found before creation.
		l.decodeCoordinator(ctx, c, nil)
	}
	return out, len(l.diags) == before
}

// clusterName returns the block's label or the argument name. A label cannot come from a variable,
// and a file that several clusters share needs one.
func (l *loader) clusterName(ctx *hcl.EvalContext, b *hclsyntax.Block) string {
	name := b.Labels[0]
	for _, a := range sortedAttributes(b.Body) {
		if a.Name != "name" {
			l.add(a.NameRange, "Unknown argument", fmt.Sprintf("a cluster has the argument name and blocks: %v", clusterBlocks))
			continue
		}
		v, diags := a.Expr.Value(ctx)
		if l.diags = append(l.diags, diags...); diags.HasErrors() || !v.IsKnown() {
			continue // reported already, or a variable without a value
		}
		text, ok := asText(v)
		if !ok || text == "" {
			l.add(a.SrcRange, "Wrong name", "name is text, and not empty; without it the cluster is called as its label")
			continue
		}
		name = text
	}
	return name
}

func (l *loader) clusterBlocks(b *hclsyntax.Block) map[string]*hclsyntax.Block {
	out := map[string]*hclsyntax.Block{}
	for _, inner := range b.Body.Blocks {
		known := false
		for _, name := range clusterBlocks {
			known = known || name == inner.Type
		}
		switch {
		case !known:
			l.add(inner.DefRange(), "Unknown block", fmt.Sprintf("%q is not known here; known: %v", inner.Type, clusterBlocks))
		case out[inner.Type] != nil:
			l.add(inner.DefRange(), "Duplicate block", inner.Type+" is set twice: keep one")
		default:
			out[inner.Type] = inner
		}
	}
	for _, name := range clusterBlocks {
		if out[name] == nil {
			l.add(b.DefRange(), "Missing block", fmt.Sprintf("cluster %q has no %s block", b.Labels[0], name))
		}
	}
	return out
}

// into decodes a block into a struct by its JSON names.
func into[T any](d *decoder, b *hclsyntax.Block, out *T, skip ...string) {
	before := len(d.diags)
	tree := d.body(b.Body, reflect.TypeFor[T](), "", skip...)
	if len(d.diags) > before {
		return
	}
	text, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		d.add(b.DefRange(), "Cannot be read", err.Error())
	}
}

func (l *loader) coordinator(ctx *hcl.EvalContext, b *hclsyntax.Block, f Facts) (Coordinator, error) {
	fresh := &loader{vars: l.vars, values: l.values, locals: l.locals}
	c := fresh.decodeCoordinator(ctx, b, &f)
	if fresh.diags.HasErrors() {
		return Coordinator{}, newError(fresh.diags)
	}
	return c, nil
}

func (l *loader) decodeCoordinator(ctx *hcl.EvalContext, b *hclsyntax.Block, f *Facts) Coordinator {
	facts := map[string]cty.Value{}
	for name, value := range map[string]func(*Facts) string{
		"cluster":            func(f *Facts) string { return f.Cluster },
		"coordinator_app_id": func(f *Facts) string { return f.CoordinatorAppID },
		"trust_json":         func(f *Facts) string { return f.TrustJSON },
		"platform_api":       func(f *Facts) string { return f.PlatformAPI },
		"platform_api_key":   func(f *Facts) string { return f.PlatformAPIKey },
	} {
		facts[name] = cty.UnknownVal(cty.String)
		if f != nil {
			facts[name] = cty.StringVal(value(f))
		}
	}
	child := ctx.NewChild()
	child.Variables = map[string]cty.Value{"cadre": cty.ObjectVal(facts)}
	c := Coordinator{}
	into(&decoder{loader: l, ctx: child, ranges: map[string]hcl.Range{}}, b, &c)
	if c.Replicas == 0 {
		c.Replicas = 3
	}
	if c.Replicas%2 == 0 || c.Replicas < 1 || c.Replicas > 5 {
		l.add(b.DefRange(), "Wrong number of coordinators", fmt.Sprintf("replicas = %d: a quorum needs 1, 3 or 5", c.Replicas))
	}
	for _, arg := range []struct{ name, value string }{{"instance_type", c.InstanceType}, {"os_image", c.OSImage}} {
		if arg.value == "" {
			l.add(b.DefRange(), "Missing argument", "coordinator needs "+arg.name)
		}
	}
	if _, ok := b.Body.Attributes["compose"]; !ok || f != nil && c.Compose == "" {
		l.add(b.DefRange(), "Missing argument", "coordinator needs compose")
	}
	return c
}
