package groupfile

import (
	"cmp"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"cadre.dev/core/group"
)

// ClusterPlatform is the platform that runs the CVMs.
type ClusterPlatform struct {
	// Driver is the block's label or its argument driver, one of group.Platforms.
	Driver string `json:"driver"`
	// APIURL is the text by which the driver finds the platform: a base URL, or "vmm:" and the nodes.
	APIURL string `json:"api_url"`
	// APIKeyEnv names the environment variable with the key or token; APIKey is it itself, for a local
	// cloud only.
	APIKeyEnv string `json:"api_key_env"`
	APIKey    string `json:"api_key"`

	// InCVM is APIURL as coordinators reach it from inside of their CVMs.
	InCVM string `json:"-"`
	// Nodes are the names of the nodes of a vmm; nil elsewhere.
	Nodes []string `json:"-"`
	// KMSAuthFile is the static file of `cadre kms-auth`, to which the coordinators are added before they
	// boot; "": another hand does that.
	KMSAuthFile string `json:"-"`
}

// vmmPlatform is the block platform "vmm", and the block without a label, whose argument driver names the
// platform: for a file that serves several platforms.
type vmmPlatform struct {
	Driver string    `json:"driver"`
	Nodes  []vmmNode `json:"node"`
	// API and APIInCVM are the driver's own text, in place of Nodes.
	API         string `json:"api"`
	APIInCVM    string `json:"api_in_cvm"`
	TokenEnv    string `json:"token_env"`
	Token       string `json:"token"`
	KMSAuthFile string `json:"kms_auth_file"`
}

// vmmNode is one host.
type vmmNode struct {
	Name     string `json:"name"`
	URL      string `json:"url"`
	URLInCVM string `json:"url_in_cvm"`
	Region   string `json:"region"`
	// Networking of new CVMs: "user" or "bridge"; "": as the host is configured.
	Networking string `json:"networking"`
}

// maxNodes bounds the nodes of a platform.
const maxNodes = 64

// ownHost is the address of a CVM's own host where its network is that of its process (user networking).
const ownHost = "10.0.2.2"

// nodeName is the grammar of nodes and regions in the driver's text, of which ',', '@' and '=' are a part.
var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// clusterPlatform decodes the platform block of a cluster.
func (l *loader) clusterPlatform(ctx *hcl.EvalContext, b *hclsyntax.Block) ClusterPlatform {
	d := &decoder{loader: l, ctx: ctx, ranges: map[string]hcl.Range{}}
	var out ClusterPlatform
	switch {
	case len(b.Labels) == 0:
		return d.named(b)
	case len(b.Labels) == 1 && b.Labels[0] == group.PlatformPhala:
		into(d, b, &out, "driver")
		if (out.APIKey == "") == (out.APIKeyEnv == "") {
			l.add(b.DefRange(), "Platform key", "give api_key_env (the name of an environment variable), or api_key for a local cloud")
		}
		out.Driver, out.InCVM = group.PlatformPhala, out.APIURL
	case len(b.Labels) == 1 && b.Labels[0] == group.PlatformVMM:
		before := len(d.diags)
		var v vmmPlatform
		if into(d, b, &v, "driver"); len(d.diags) == before {
			out = d.vmm(b, v)
		}
	default:
		d.unknownPlatform(b, b.DefRange())
	}
	return out
}

func (d *decoder) unknownPlatform(b *hclsyntax.Block, where hcl.Range) {
	if given, ok := d.ranges["driver"]; ok && len(b.Labels) == 0 {
		where = given
	}
	d.add(where, "Unknown platform", `write: platform "`+strings.Join(group.Platforms(), `" { ... } or platform "`)+`" { ... }`)
}

// named decodes a block without a label.
func (d *decoder) named(b *hclsyntax.Block) ClusterPlatform {
	before := len(d.diags)
	var v vmmPlatform
	if into(d, b, &v, "node"); len(d.diags) > before {
		return ClusterPlatform{}
	}
	switch v.Driver {
	case group.PlatformVMM:
		return d.vmm(b, v)
	case group.PlatformPhala:
		if (v.Token == "") == (v.TokenEnv == "") {
			d.at(b, "token_env", "Platform key", "give token_env (the name of an environment variable), or token for a local cloud")
		}
		return ClusterPlatform{Driver: v.Driver, APIURL: v.API, InCVM: cmp.Or(v.APIInCVM, v.API), APIKeyEnv: v.TokenEnv, APIKey: v.Token}
	}
	d.unknownPlatform(b, b.DefRange())
	return ClusterPlatform{}
}

// vmm is the platform of a decoded block.
func (d *decoder) vmm(b *hclsyntax.Block, v vmmPlatform) ClusterPlatform {
	out := ClusterPlatform{Driver: group.PlatformVMM, APIURL: v.API, InCVM: v.APIInCVM, APIKey: v.Token, APIKeyEnv: v.TokenEnv, KMSAuthFile: v.KMSAuthFile}
	if v.Token != "" && v.TokenEnv != "" {
		d.at(b, "token", "Two tokens", "token_env names an environment variable, and token is for a local cloud: keep one")
	}
	if file := v.KMSAuthFile; file != "" && !filepath.IsAbs(file) {
		out.KMSAuthFile = filepath.Join(filepath.Dir(b.DefRange().Filename), file)
	}
	switch {
	case len(v.Nodes) > 0 && v.API != "":
		d.at(b, "api", "Two lists of nodes", "api has the nodes in one text: keep it, or the node blocks")
	case len(v.Nodes) == 0 && v.API == "":
		d.add(b.DefRange(), "No node", `write for each host: node "host-a" { url = "https://10.0.0.5:9080" }`)
	case len(v.Nodes) > maxNodes:
		d.add(b.DefRange(), "Too many nodes", "a cluster has at most 64")
	case v.API != "":
		for name, text := range map[string]string{"api": v.API, "api_in_cvm": v.APIInCVM} {
			if text != "" && !strings.HasPrefix(text, "vmm:") {
				d.at(b, name, "Wrong list of nodes", "write vmm:NAME=URL, with a comma before each further node")
			}
		}
		out.InCVM = cmp.Or(v.APIInCVM, v.API)
		out.Nodes = nodesOf(v.API)
	default:
		out.APIURL, out.InCVM = d.nodes(b, v.Nodes)
		for _, n := range v.Nodes {
			out.Nodes = append(out.Nodes, n.Name)
		}
	}
	return out
}

// nodes joins the node blocks to the driver's text, as an operator and as a CVM reaches them.
func (d *decoder) nodes(b *hclsyntax.Block, nodes []vmmNode) (outside, inside string) {
	var out, in, seen []string
	for _, n := range nodes {
		at := `node["` + n.Name + `"]`
		if !nodeName.MatchString(n.Name) {
			d.at(b, at, "Wrong name", "a node has 1 to 63 lower-case letters, digits, '.', '_' and '-'")
		}
		if slices.Contains(seen, n.Name) {
			d.at(b, at, "Duplicate node", n.Name+" is there twice: keep one")
		}
		seen = append(seen, n.Name)
		if n.Region != "" && !nodeName.MatchString(n.Region) {
			d.at(b, at+".region", "Wrong region", "a region has 1 to 63 lower-case letters, digits, '.', '_' and '-'")
		}
		way := n.URLInCVM
		if problem := urlProblem(n.URL, true); problem != "" {
			d.at(b, at+".url", "Wrong URL", problem)
		}
		if way == "" {
			if way = n.URL; strings.HasPrefix(way, "unix:") {
				d.at(b, at+".url", "Not reached from a CVM", "coordinators run in CVMs, which reach no socket of the host: give url_in_cvm too, such as http://10.0.0.5:9080")
			}
		} else if problem := urlProblem(way, false); problem != "" {
			d.at(b, at+".url_in_cvm", "Wrong URL", problem)
		}
		if u, err := url.Parse(way); err == nil && u.Hostname() == ownHost && len(nodes) > 1 {
			d.at(b, at+".url_in_cvm", "Another host for each CVM", ownHost+" is the host on which a CVM runs, and coordinators run on every node: give an address that leads to this node from all of them")
		}
		head := n.Name
		if n.Region != "" {
			head += "@" + n.Region
		}
		tail := ""
		switch n.Networking {
		case "":
		case "user", "bridge":
			tail = "?networking=" + n.Networking
		default:
			d.at(b, at+".networking", "Unknown networking", `write "user" or "bridge", or leave it out for the host's default`)
		}
		out, in = append(out, head+"="+n.URL+tail), append(in, head+"="+way+tail)
	}
	return "vmm:" + strings.Join(out, ","), "vmm:" + strings.Join(in, ",")
}

// urlProblem says why text is no endpoint of a node; "": it is.
func urlProblem(text string, socket bool) string {
	want := "write https://HOST:PORT or http://HOST:PORT"
	if socket {
		want += ", or unix:///PATH"
	}
	u, err := url.Parse(text)
	switch {
	case text == "":
		return "is missing: " + want
	case err != nil || strings.ContainsAny(text, ", "):
		return want
	case u.Scheme == "unix" && socket && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		return ""
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return want
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return want + ", without a name or a question; the token is given by token_env"
	}
	return ""
}

// nodesOf are the names in a driver's text.
func nodesOf(api string) (names []string) {
	for _, one := range strings.Split(strings.TrimPrefix(api, "vmm:"), ",") {
		head, _, _ := strings.Cut(one, "=")
		name, _, _ := strings.Cut(head, "@")
		names = append(names, name)
	}
	return names
}

// at adds a problem at the place of a field, or of the block around it.
func (d *decoder) at(b *hclsyntax.Block, path, summary, detail string) {
	where, ok := d.ranges[path]
	if block, _, inner := strings.Cut(path, "]."); !ok && inner {
		where, ok = d.ranges[block+"]"]
	}
	if !ok {
		where = b.DefRange()
	}
	d.add(where, summary, detail)
}
