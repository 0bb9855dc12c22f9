package groupfile

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"cadre.dev/core/group"
)

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const everything = `
variable "size" { default = 3 }
locals {
  digest = "sha256:${sha256("x")}"
}
group "postgres" {
  platform = "phala"
  app_id   = "00112233445566778899aabbccddeeff00112233"
  replicas = var.size
  template {
    compose       = templatefile("pg.yaml", { image = "pg@${local.digest}", ports = [1, 2] })
    env           = { A = 1, B = file("b.txt") }
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.7"
    disk_gb       = 20
  }
  management_policy = "PARALLEL"
  update_policy {
    max_unavailable_fixed = 1
    min_ready_seconds     = 30
    healthy_deadline      = "10m"
    require_approval      = true
    order                 = "by_domain"
  }
  preserved_state { disk = "data" }
  placement {
    spread   = "machine"
    max_per  = 2
    nodes    = ["host-a", "7"]
    require  = true
    verified = true
    machines = ["0123456789abcdef", "fedcba9876543210"]
    with     = ["web"]
    not_with = ["batch"]
  }
  workload "patroni" {
    port     = 8008
    settings = { scope = "pg" }
  }
  lifecycle_hook "drain" {
    transition        = "PRE_TERMINATE"
    driver { do = "transfer" }
    heartbeat_timeout = "60s"
  }
  lifecycle_hook "late" {
    transition = "POST_LAUNCH"
    exec = { service = "web", command = "warm" }
  }
  health_check "ready" {
    http {
      port         = 8008
      request_path = "/readiness"
      expect       = 200
    }
    check_interval_sec = 10
  }
  auto_healing_policies {
    health_check      = "ready"
    initial_delay_sec = 60
    replace           = "auto"
  }
  restart_policy {
    on           = ["exit", "unhealthy"]
    max_attempts = 3
    window       = "2h"
  }
  meta { team = "db" }
  backend "pg" {
    port  = 5432
    allow = ["web"]
  }
  secret "superuser" {
    bytes  = 32
    format = "base64"
    owner  = "999:999"
    mode   = "0640"
    rotate = "720h"
    pooler_routes = ["ledger-master"]
  }
  instance "2" {
    metadata             = { rack = "b" }
    instance_type        = "tdx.large"
    exclude_from_rollout = true
    preserved_state { disk = "data" }
  }
  not_secret = ["A"]
  backend "api" {
    port     = 8080
    address  = "127.0.0.1"
    allow    = ["web", "postgres"]
    workload = "rest"
    registration {
      owner  = "workload"
      parent = "ledger"
      ttl    = "10s"
    }
  }
  route "postgres-master" {
    backend      = "pg"
    role         = "leader"
    hold         = "5s"
    pooler       = "pgbouncer"
    pooler_users = { app = "app-password" }
  }
  route "ledger-blue" {
    backend = "api"
    role    = "blue"
  }
  consul_permissions {
    key_prefixes  = ["service/postgres/config/"]
    session_write = true
  }
  stopped  = true
  after    = ["base", "pg"]
  priority = 70
  gate "balancer" {
    on  = ["step", "remove"]
    per = "slot"
  }
}
`

func TestEveryField(t *testing.T) {
	dir := write(t, map[string]string{"all.hcl": everything, "b.txt": "bee",
		"pg.yaml": "image: ${image}\n%{ for p in ports ~}\nport: ${p}\n%{ endfor ~}\n"})
	f, err := Load([]string{dir}, Vars{})
	if err != nil {
		t.Fatal(err)
	}
	got := f.Groups[0].Spec
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/everything.json", string(text)+"\n")
	again, err := group.Decode(f.Groups[0].JSON)
	if err != nil || again.Replicas != 3 || again.Workload.Settings["port"] != "8008" || again.Workload.Settings["scope"] != "pg" ||
		again.Backends[1].Registration.Parent != "ledger" || again.Routes[0].PoolerUsers["app"] != "app-password" || again.Routes[1].Role != "blue" || !again.ConsulPermissions.SessionWrite {
		t.Errorf("JSON decodes to %+v, %v", again, err)
	}
	for path, line := range map[string]string{
		"replicas": "9", "update_policy.min_ready_seconds": "20", "update_policy.partition": "18", `lifecycle_hook["late"].exec`: "47",
		`health_check["ready"].http.port`: "51", `instance["2"].metadata`: "81", "nothing": "6", "meta.team": "67",
		`backend["api"].registration.ttl`: "95", `route["postgres-master"].pooler_users`: "103", `consul_permissions.key_prefixes`: "110",
	} {
		if got := f.Groups[0].Position(path); !strings.HasSuffix(got, "all.hcl:"+line) {
			t.Errorf("Position(%q) = %s, want line %s", path, got, line)
		}
	}
}

// Settings are texts, and voters = true is one.
func TestSettingsTakeBools(t *testing.T) {
	dir := write(t, map[string]string{"g.hcl": `group "k" {
  replicas = 3
  template {
    compose       = "x"
    instance_type = "a"
    os_image      = "b"
  }
  update_policy {}
  workload "custom" {
    http   = "127.0.0.1:9900"
    voters = true
    set    = "adds"
  }
}
`})
	f, err := Load([]string{dir}, Vars{})
	if err != nil {
		t.Fatal(err)
	}
	want := group.Workload{Kind: group.WorkloadCustom, Settings: map[string]string{"http": "127.0.0.1:9900", "voters": "true", "set": "adds"}}
	if got := f.Groups[0].Spec.Workload; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestInstancesAreNamedByOrdinal(t *testing.T) {
	dir := write(t, map[string]string{"g.hcl": `group "web" {
  replicas = 1
  template {
    compose       = "x"
    instance_type = "a"
    os_image      = "b"
  }
  update_policy {}
  instance "first" {}
}
`})
	_, err := Load([]string{dir}, Vars{})
	if err == nil || !strings.Contains(err.Error(), `g.hcl:9: Wrong label: "first" is not an ordinal: write a whole number such as instance "0" { ... }`) {
		t.Errorf("a name for an ordinal: %v", err)
	}
}

func TestVariables(t *testing.T) {
	dir := write(t, map[string]string{
		"g.hcl": "variable \"n\" {}\ngroup \"web\" {\n platform = \"phala\"\n replicas = var.n\n template {\n compose = \"x\"\n instance_type = var.kind\n os_image = \"o\"\n }\n update_policy {}\n}\n",
		"v.txt": "n = 5\nkind = \"tdx.small\"\nother = \"of another file\"\n",
	})
	if _, err := Load([]string{filepath.Join(dir, "g.hcl")}, Vars{}); err == nil || !strings.Contains(err.Error(), "g.hcl:1: Variable without a value: give --var n=..., a line of a --var-file, or a default") {
		t.Errorf("without a value: %v", err)
	}
	vars, err := CollectVars([]string{"n=7"}, []string{filepath.Join(dir, "v.txt")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Load([]string{filepath.Join(dir, "g.hcl")}, vars); err == nil || !strings.Contains(err.Error(), "g.hcl:7: Unsupported attribute") {
		t.Errorf("a variable that is used and not declared: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "g.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "g.hcl"), append([]byte("variable \"kind\" {}\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Load([]string{filepath.Join(dir, "g.hcl")}, vars)
	if err != nil || f.Groups[0].Spec.Replicas != 7 || f.Groups[0].Spec.Template.InstanceType != "tdx.small" {
		t.Errorf("Load = %+v, %v", f, err)
	}
	for _, bad := range []string{"n", "=x", "1a=2"} {
		if _, err := CollectVars([]string{bad}, nil); err == nil {
			t.Errorf("-var %q was accepted", bad)
		}
	}
}

// A value under a misspelt name would be lost, and the default of the file would apply.
func TestANamedVariableIsDeclared(t *testing.T) {
	dir := write(t, map[string]string{"g.hcl": "variable \"release\" { default = \"1\" }\nvariable \"size\" { default = 1 }\n", "none.hcl": "locals { a = 1 }\n"})
	for file, want := range map[string]string{
		"g.hcl":    `Undeclared variable: "relaese" is declared in no file; declared: release, size; did you mean "release"?`,
		"none.hcl": `Undeclared variable: "relaese" is declared in no file, and none declares a variable: add variable "relaese" {}`,
	} {
		_, err := Load([]string{filepath.Join(dir, file)}, Vars{Named: map[string]string{"relaese": "2"}})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
	_, err := Load([]string{filepath.Join(dir, "g.hcl")}, Vars{Named: map[string]string{"region": "2"}})
	if err == nil || strings.Contains(err.Error(), "did you mean") {
		t.Errorf("a name like no other: %v", err)
	}
	if _, err := Load([]string{filepath.Join(dir, "g.hcl")}, Vars{Shared: map[string]string{"relaese": "2"}}); err != nil {
		t.Errorf("a file of variables that others share: %v", err)
	}
}

// All problems are reported at once, each with its place.
func TestProblems(t *testing.T) {
	dir := write(t, map[string]string{"bad.hcl": `group "web" {
  platfrom = "phala"
  replicas = 1.5
  template = {}
  update_policy {
    healthy_deadline = ["x"]
    canary {}
  }
  update_policy {}
  lifecycle_hook { }
  meta {
    a {}
  }
  app_id = file("missing.txt")
  replicas2 = nope.x
}
group {}
stray = 1
thing "x" {}
`})
	file, err := Load([]string{filepath.Join(dir, "bad.hcl")}, Vars{})
	var all *Error
	if !errors.As(err, &all) {
		t.Fatalf("Load error %v, want *Error", err)
	}
	for _, g := range file.Groups {
		for _, p := range g.Wrong {
			all.Problems = append(all.Problems, g.Position(p.Path)+": "+p.String())
		}
		for path, judged := range map[string]bool{"replicas": true, "template.os_image": false, "app_id": false, "meta": true} {
			if g.Judged(path) != judged {
				t.Errorf("Judged(%q) is %v", path, !judged)
			}
		}
	}
	golden(t, "testdata/problems.txt", strings.NewReplacer(dir+"/", "", dir, "FOLDER").Replace(strings.Join(all.Problems, "\n"))+"\n")
}

func TestSyntaxError(t *testing.T) {
	dir := write(t, map[string]string{"bad.hcl": "group \"x\" {\n  a = \n}\n"})
	if _, err := Load([]string{dir}, Vars{}); err == nil || !strings.Contains(err.Error(), "bad.hcl:2: Invalid expression") {
		t.Errorf("Load: %v", err)
	}
	if _, err := Load([]string{filepath.Join(dir, "absent.hcl")}, Vars{}); err == nil || !strings.Contains(err.Error(), "absent.hcl: no such file") {
		t.Errorf("Load of an absent file: %v", err)
	}
}

const clusterText = `
locals { cloud = jsondecode(file("cloud.json")) }
cluster "demo" {
  platform "phala" {
    api_url = local.cloud.api_url
    api_key = local.cloud.api_key
  }
  gateway {
    domain  = local.cloud.gateway_domain
    address = local.cloud.gateway_address
  }
  coordinator {
    replicas      = 3
    compose       = templatefile("c.yaml", { trust = cadre.trust_json, app = cadre.coordinator_app_id })
    instance_type = "tdx.small"
    os_image      = "dstack-0.5.9"
    disk_gb       = 10
    env           = { PLATFORM_API_KEY = cadre.platform_api_key, CLUSTER = cadre.cluster }
  }
  trust {
    roots_pem = "PEM"
    key_provider    = local.cloud.key_provider
    images          = local.cloud.images
    allow_simulated = true
  }
}
`

func TestCluster(t *testing.T) {
	dir := write(t, map[string]string{"c.hcl": clusterText, "c.yaml": "app: ${app}\ntrust: ${jsonencode(trust)}\n",
		"cloud.json": `{"api_url":"http://127.0.0.1:1/api/v1","api_key":"k","gateway_domain":"gw.test","gateway_address":"127.0.0.1:443",
			"key_provider":{"name":"kms","id":"ab"},"images":{"dstack-0.5.9":[{"mrtd":"01","rtmr0":"02","rtmr1":"03","rtmr2":"04"}]}}`})
	f, err := Load([]string{dir}, Vars{})
	if err != nil {
		t.Fatal(err)
	}
	c := f.Clusters[0]
	if c.Name != "demo" || c.Platform.APIURL != "http://127.0.0.1:1/api/v1" || c.Gateway.Domain != "gw.test" ||
		c.Trust.KeyProvider.ID != "ab" || c.Trust.Images["dstack-0.5.9"][0].RTMR2 != "04" || !c.Trust.AllowSimulated || c.Trust.Cluster != "demo" {
		t.Errorf("cluster = %+v", c)
	}
	got, err := c.Coordinator(Facts{Cluster: "demo", CoordinatorAppID: "aa", TrustJSON: `{"x":1}`, PlatformAPIKey: "k"})
	if err != nil {
		t.Fatal(err)
	}
	if want := "app: aa\ntrust: \"{\\\"x\\\":1}\"\n"; got.Compose != want || got.Replicas != 3 || got.Env["PLATFORM_API_KEY"] != "k" {
		t.Errorf("coordinator = %+v, want compose %q", got, want)
	}
}

// A file that several clusters share takes the name from a variable.
func TestClusterNamedByAVariable(t *testing.T) {
	text := strings.Replace(strings.Replace(clusterText, "cluster \"demo\" {", "variable \"name\" {}\ncluster \"shared\" {\n  name = var.name", 1), `locals { cloud = jsondecode(file("cloud.json")) }`,
		`locals { cloud = { api_url = "u", api_key = "k", gateway_domain = "gw", gateway_address = "", key_provider = { name = "kms", id = "ab" }, images = {} } }`, 1)
	dir := write(t, map[string]string{"c.hcl": text, "c.yaml": ""})
	f, err := Load([]string{dir}, Vars{Named: map[string]string{"name": "prod"}})
	if err != nil || f.Clusters[0].Name != "prod" || f.Clusters[0].Trust.Cluster != "prod" {
		t.Errorf("%+v, %v", f.Clusters, err)
	}
	for value, want := range map[string]string{"": "name is text, and not empty", "none": "Variable without a value"} {
		vars := map[string]string{"name": value}
		if value == "none" {
			delete(vars, "name")
		}
		if _, err := Load([]string{dir}, Vars{Named: vars}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("name %q: %v", value, err)
		}
	}
}

func TestClusterProblems(t *testing.T) {
	dir := write(t, map[string]string{"c.hcl": `cluster "demo" {
  platform "gcp" {}
  gateway {}
  coordinator {
    replicas = 2
    compose = templatefile("absent.yaml", { a = cadre.trust_json })
  }
  trust {
    cluster                    = "x"
    coordinator_compose_hashes = ["y"]
  }
  dns {}
}
`})
	_, err := Load([]string{dir}, Vars{})
	if err == nil {
		t.Fatal("Load succeeded")
	}
	golden(t, "testdata/cluster_problems.txt", strings.NewReplacer(dir+"/", "", dir, "FOLDER").Replace(err.Error())+"\n")
}

// vmmCluster is a cluster on two hosts.
func vmmCluster(t *testing.T, platform string) (Cluster, error) {
	t.Helper()
	label := ` "vmm"`
	if strings.Contains(platform, "driver") {
		label = ""
	}
	dir := write(t, map[string]string{"c.hcl": `cluster "own" {
  platform` + label + ` {
` + platform + `
  }
  gateway {
    domain = "gw.example"
  }
  coordinator {
    compose       = "services: {}"
    instance_type = "2c4g"
    os_image      = "dstack-0.5.11"
    env           = { CADRE_PLATFORM_API = cadre.platform_api, CADRE_PLATFORM_API_KEY = cadre.platform_api_key }
  }
  trust {
    key_provider {
      name = "kms"
      id   = "ab"
    }
  }
}
`})
	f, err := Load([]string{dir}, Vars{})
	if err != nil {
		return Cluster{}, errors.New(strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	f.Clusters[0].Platform.KMSAuthFile = strings.TrimPrefix(f.Clusters[0].Platform.KMSAuthFile, dir+"/")
	return f.Clusters[0], nil
}

// TestClusterOnOwnHosts: node blocks and the driver's own text mean the same.
func TestClusterOnOwnHosts(t *testing.T) {
	blocks := `node "host-a" {
      url    = "https://10.0.0.5:9080"
      region = "eu"
    }
    node "host-b" {
      url        = "unix:///run/vmm.sock"
      networking = "bridge"
      url_in_cvm = "http://10.0.0.6:9080"
    }
    token_env     = "VMM_TOKEN"
    kms_auth_file = "kms-auth.json"`
	text := `api           = "vmm:host-a@eu=https://10.0.0.5:9080,host-b=unix:///run/vmm.sock?networking=bridge"
    api_in_cvm    = "vmm:host-a@eu=https://10.0.0.5:9080,host-b=http://10.0.0.6:9080?networking=bridge"
    token_env     = "VMM_TOKEN"
    kms_auth_file = "kms-auth.json"`
	want := ClusterPlatform{
		Driver: "vmm", APIURL: "vmm:host-a@eu=https://10.0.0.5:9080,host-b=unix:///run/vmm.sock?networking=bridge", APIKeyEnv: "VMM_TOKEN",
		InCVM: "vmm:host-a@eu=https://10.0.0.5:9080,host-b=http://10.0.0.6:9080?networking=bridge", Nodes: []string{"host-a", "host-b"}, KMSAuthFile: "kms-auth.json",
	}
	for name, platform := range map[string]string{"blocks": blocks, "text": text} {
		c, err := vmmCluster(t, platform)
		if err != nil || !reflect.DeepEqual(c.Platform, want) {
			t.Fatalf("%s: %+v, %v", name, c.Platform, err)
		}
		co, err := c.Coordinator(Facts{PlatformAPI: c.Platform.InCVM, PlatformAPIKey: "t"})
		if err != nil || co.Env["CADRE_PLATFORM_API"] != want.InCVM || co.Env["CADRE_PLATFORM_API_KEY"] != "t" {
			t.Errorf("%s: %+v, %v", name, co.Env, err)
		}
	}
	for driver, platform := range map[string]string{
		"vmm":   `api = "vmm:a=http://h:1"`,
		"phala": "api = \"http://h:1/api/v1\"\n api_in_cvm = \"http://c:1\"\n token = \"k\"",
	} {
		c, err := vmmCluster(t, platform+"\n driver = \""+driver+"\"")
		if err != nil || c.Platform.Driver != driver || c.Platform.APIURL == "" || c.Platform.InCVM == "" || (driver == "phala") != (c.Platform.APIKey == "k") {
			t.Errorf("%s by its argument: %+v, %v", driver, c.Platform, err)
		}
	}
	if c, err := vmmCluster(t, "node \"a\" {\n url = \"unix:///s\"\n url_in_cvm = \"http://10.0.2.2:1\"\n}"); err != nil {
		t.Errorf("one host: %+v, %v", c.Platform, err)
	}
	if c, err := vmmCluster(t, `node "a" { url = "http://127.0.0.1:1" }`); err != nil || c.Platform.APIKeyEnv+c.Platform.APIKey != "" {
		t.Errorf("without a token: %+v, %v", c.Platform, err)
	}
}

// TestProblemsOfOwnHosts: all at once, each with its line.
func TestProblemsOfOwnHosts(t *testing.T) {
	_, err := vmmCluster(t, `node "a" {}
    node "a" {
      url = "unix:///run/vmm.sock"
    }
    node "b@c" {
      url    = "https://u:p@h:1"
      region = "e u"
      networking = "host"
    }
    node "d" {
      url        = "ftp://h:1"
      url_in_cvm = "unix:///x"
    }
    node "e" {
      url        = "https://10.0.0.9:9080"
      url_in_cvm = "http://10.0.2.2:9080"
    }
    token     = "x"
    token_env = "y"`)
	if err == nil {
		t.Fatal("Load succeeded")
	}
	golden(t, "testdata/vmm_problems.txt", err.Error()+"\n")
	for platform, want := range map[string]string{
		"": "No node", `driver = "gcp"`: "Unknown platform", `driver = "phala"`: "Platform key", `api = "https://h:1"`: "Wrong list of nodes", `api_key = "k"`: `"api_key" is not known`,
		"api = \"vmm:a=http://h:1\"\n node \"a\" { url = \"http://h:1\" }": "Two lists of nodes",
	} {
		if _, err := vmmCluster(t, platform); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", platform, err)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n--- got\n%s--- want\n%s", name, got, want)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(everything)
	f.Add(clusterText)
	f.Fuzz(func(t *testing.T, text string) {
		dir := write(t, map[string]string{"f.hcl": text})
		if _, err := Load([]string{dir}, Vars{}); err != nil {
			var all *Error
			if !errors.As(err, &all) && !strings.Contains(err.Error(), "read") {
				t.Errorf("error of another kind: %v", err)
			}
		}
	})
}
