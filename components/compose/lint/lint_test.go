package lint

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"cadre.dev/core/appcompose"
	"cadre.dev/core/appcompose/appcomposetest"
)

const (
	hex64  = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	digest = "@sha256:" + hex64
)

// good is a CVM's compose file without a finding.
const good = `services:
  cadre:
    image: registry.example/cadre-agent:1.0` + digest + `
    network_mode: host
    restart: unless-stopped
    command: [--trust-file=/etc/cadre/trust.json, --revision-mark=CADRE_REVISION_MARK]
    environment:
      CADRE_GATEWAY_DOMAIN: ${CADRE_GATEWAY_DOMAIN}
      CADRE_PATHS: ${CADRE_PATHS:-}
    volumes:
      - /var/run/dstack.sock:/var/run/dstack.sock
      - cadre:/var/lib/cadre
      - mesh:/run/mesh
    configs:
      - source: trust
        target: /etc/cadre/trust.json
  web:
    image: nginx` + digest + `
    command: [/run/mesh/exec, --revision-mark=CADRE_REVISION_MARK, --, sh, -c, 'echo $$HOME && exec nginx']
    mem_limit: ${MEMORY:-64m}
    volumes:
      - mesh:/run/mesh
configs:
  trust:
    content: '{"cluster":"demo"}'
volumes:
  cadre:
  mesh:
    driver_opts: { type: tmpfs, device: tmpfs }
`

const lastKeys = "    mem_limit: ${MEMORY:-64m}\n    volumes:\n      - mesh:/run/mesh\n"

// web puts other keys at the end of the second service of good.
func web(lines ...string) string {
	return strings.Replace(good, lastKeys, "    "+strings.Join(lines, "\n    ")+"\n", 1)
}

// image replaces the whole image line of the second service.
func image(line string) string {
	return strings.Replace(good, "    image: nginx"+digest+"\n", "    "+line+"\n", 1)
}

// swap replaces a part of good.
func swap(old, replacement string) string { return strings.Replace(good, old, replacement, 1) }

func brief(findings []Finding) []string {
	out := []string{}
	for _, f := range findings {
		out = append(out, fmt.Sprintf("%s %s %d:%d", f.Severity, f.Rule, f.Line, f.Column))
	}
	return out
}

func TestATT16_GoodTextHasNoFinding(t *testing.T) {
	if got := Lint([]byte(good)); len(got) > 0 {
		t.Errorf("findings %v", got)
	}
	if got := Lint([]byte(strings.ReplaceAll(good, "\n", "\r\n"))); len(got) > 0 {
		t.Errorf("with Windows newlines: %v", got)
	}
}

// Each text has this finding among its own; "error" ones refuse the text.
func TestATT16_Variants(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"tag only":                 {image("image: nginx:1.27"), "error image-not-pinned 18:12"},
		"bare name":                {image("image: nginx"), "error image-not-pinned 18:12"},
		"upper-case digest":        {image("image: nginx@sha256:" + strings.Repeat("AB", 32)), "error image-not-pinned 18:12"},
		"short digest":             {image("image: nginx@sha256:abcd"), "error image-not-pinned 18:12"},
		"other digest":             {image("image: nginx@sha512:" + hex64 + hex64), "error image-not-pinned 18:12"},
		"variable image":           {image("image: ${IMAGE}"), "error image-not-pinned 18:12"},
		"variable digest":          {image("image: nginx@sha256:$DIGEST"), "error image-not-pinned 18:12"},
		"variable with default":    {image(`image: "${A:-x` + digest + `}"`), "error image-not-pinned 18:12"},
		"variable as tag":          {image("image: nginx:$TAG" + digest), "error image-not-pinned 18:12"},
		"escaped variable":         {image(`image: "\x24{IMAGE}"`), "error image-not-pinned 18:12"},
		"escaped dollar":           {image(`image: "$${A}` + digest + `"`), "error image-not-pinned 18:12"},
		"Unicode-folded variable":  {image(`image: "$ſ` + digest + `"`), "error image-not-pinned 18:12"},
		"block scalar image":       {image("image: >-\n      nginx" + digest), "error yaml-style 18:1"},
		"folded plain image":       {image("image: nginx" + digest + "\n      more"), "error image-not-pinned 18:12"},
		"alias image":              {swap("nginx"+digest, "*i") + "x-i: &i nginx" + digest + "\n", "error yaml 1:1"},
		"anchored alias image":     {"x-i: &i nginx" + digest + "\n" + image("image: *i"), "error yaml-style 19:1"},
		"anchored image":           {image("image: &i nginx" + digest), "error yaml-style 18:1"},
		"tagged image":             {image("image: !!str nginx" + digest), "error yaml-tag 18:12"},
		"reset tag":                {image("image: !reset nginx" + digest), "error yaml-tag 18:12"},
		"override tag":             {web("cap_drop: !override [ALL]"), "error yaml-tag 20:15"},
		"image null":               {image("image:"), "error image-not-pinned 18:11"},
		"image list":               {image("image: [nginx" + digest + "]"), "error image-not-pinned 18:12"},
		"no image":                 {image("hostname: a"), "error image-not-pinned 18:5"},
		"build":                    {web("build: ."), "error build 20:5"},
		"build instead":            {image("build: {context: .}"), "error build 18:5"},
		"pull policy build":        {web("pull_policy: build"), "error pull-policy 20:18"},
		"pull policy never":        {web("pull_policy: never"), "warning pull-policy 20:18"},
		"restart always":           {web("restart: always"), "warning restart-policy 20:14"},
		"restart on failure":       {web("restart: on-failure:3"), "warning restart-policy 20:14"},
		"restart of a deployment":  {web("deploy: {restart_policy: {condition: any}}"), "warning restart-policy 20:30"},
		"restart without an end":   {web("deploy: {restart_policy: {delay: 1s}}"), "warning restart-policy 20:30"},
		"an agent without a mark":  {swap(", --revision-mark=CADRE_REVISION_MARK]", "]"), "warning revision-mark 3:5"},
		"exec without a mark":      {swap("exec, --revision-mark=CADRE_REVISION_MARK, ", "exec, "), "warning revision-mark 18:5"},
		"a mark of another text":   {swap("exec, --revision-mark=CADRE_REVISION_MARK, ", "exec, --revision-mark="+hex64+", "), "error revision-mark 19:31"},
		"a check of the agent":     {web("depends_on: {cadre: {condition: service_healthy}}"), "warning boot-budget 20:25"},
		"image twice":              {web("image: nginx" + digest), "error yaml-duplicate 20:5"},
		"image twice, quoted":      {web(`"image": other` + digest), "error yaml-duplicate 20:5"},
		"image twice, escaped":     {web(`"im\x61ge": other` + digest), "error yaml-duplicate 20:5"},
		"service twice":            {good[:strings.Index(good, "configs:\n  trust")] + "  web:\n    image: a" + digest + "\n", "error yaml-duplicate 23:3"},
		"merge into the service":   {"x-a: &a\n  image: nginx" + digest + "\n" + image("<<: *a"), "error yaml-merge 20:5"},
		"merge below":              {"x-e: &e {A: b}\n" + web("environment:", "  <<: *e"), "error yaml-merge 22:7"},
		"quoted merge":             {web(`"<<": {image: nginx}`), "error yaml-merge 20:5"},
		"flow service":             {"services: {web: {image: nginx}}\n", "error image-not-pinned 1:25"},
		"flow service, pinned":     {"services: {web: {image: \"nginx" + digest + "\"}}\n", "error yaml-style 1:1"},
		"flow service, one line":   {swap("  web:\n", "  evil: {image: nginx}\n  web:\n"), "error image-not-pinned 17:17"},
		"complex key":              {web("? image", ": nginx"), "error yaml-duplicate 20:7"},
		"JSON":                     {`{"services":{"a":{"image":"nginx"}}}`, "error image-not-pinned 1:27"},
		"extends":                  {web("extends: {file: other.yaml, service: web}"), "error not-measured 20:5"},
		"include":                  {"include: [other.yaml]\n" + good, "error not-measured 1:1"},
		"env_file":                 {web("env_file: .env"), "error not-measured 20:5"},
		"label_file":               {web("label_file: l"), "error not-measured 20:5"},
		"provider":                 {web("provider: {type: x}"), "error not-measured 20:5"},
		"image volume":             {web("volumes:", "  - {type: image, source: 'tools:1', target: /t}"), "error image-not-pinned 21:9"},
		"template image":           {"x-tools:\n  a:\n    image: tools:1\n" + good, "error template-image 3:12"},
		"variable in command":      {web("entrypoint: [sh, -c, \"$SCRIPT\"]"), "error variable 20:26"},
		"variable in a string":     {web("entrypoint: sh -c ${SCRIPT:-true}"), "error variable 20:17"},
		"variable in the hook":     {web("post_start: [{command: [sh, \"${A}\"], user: root}]"), "error variable 20:33"},
		"variable in healthcheck":  {web("healthcheck: {test: [CMD-SHELL, \"$A\"]}"), "error variable 20:37"},
		"variable in a mount":      {web("volumes: ['${WHERE}:/x']"), "error variable 20:15"},
		"variable in a long mount": {web("volumes: [{type: bind, source: \"${WHERE}\", target: /x}]"), "error variable 20:36"},
		"variable in cap_add":      {web("cap_add: ['${CAP}']"), "error variable 20:15"},
		"variable in privileged":   {web("privileged: ${P:-false}"), "error variable 20:17"},
		"variable in devices":      {web("devices: ['${D}']"), "error variable 20:15"},
		"variable in security_opt": {web("security_opt: ['${D}']"), "error variable 20:20"},
		"variable in network_mode": {web("network_mode: ${N}"), "error variable 20:19"},
		"variable in pid":          {web("pid: $P"), "error variable 20:10"},
		"variable in ipc":          {web("ipc: $P"), "error variable 20:10"},
		"variable in user":         {web("user: ${UID}"), "error variable 20:11"},
		"variable in hosts":        {web("extra_hosts: ['db:${DB}']"), "error variable 20:19"},
		"variable in logging":      {web("logging: {driver: syslog, options: {syslog-address: \"$S\"}}"), "error variable 20:57"},
		"variable in a config":     {swap(`'{"cluster":"demo"}'`, `'{"cluster":"${C}"}'`), "error variable 25:14"},
		"variable in a block":      {swap(`'{"cluster":"demo"}'`, "|\n      a\n      $B"), "error variable 25:14"},
		"variable in volumes":      {swap("device: tmpfs", "device: $D"), "error variable 29:41"},
		"variable in a key":        {web("environment: {\"${A}\": b}"), "error variable 20:19"},
		"variable as list name":    {web("environment: ['${A}=b']"), "error variable 20:19"},
		"whole list item":          {web("environment: ['$A']"), "error variable 20:19"},
		"code-steering variable":   {web("environment: {LD_PRELOAD: \"$A\"}"), "error variable 20:31"},
		"code-steering passed on":  {web("environment: [PATH]"), "error variable 20:19"},
		"code-steering null":       {web("environment:", "  PYTHONPATH:"), "error variable 21:7"},
		"variable behind an alias": {"x-c: &c [sh, \"$A\"]\n" + web("entrypoint: *c"), "error variable 21:17"},
		"alias of an alias":        {"x-a: &a [x]\nx-b: &b [*a]\n" + web("entrypoint: *b"), "error yaml-alias 22:17"},
		"config from a file":       {swap(`content: '{"cluster":"demo"}'`, "file: ./trust.json"), "error not-measured 25:5"},
		"config from environment":  {swap(`content: '{"cluster":"demo"}'`, "environment: TRUST"), "error not-measured 25:5"},
		"external config":          {swap(`content: '{"cluster":"demo"}'`, "external: true"), "error not-measured 25:5"},
		"lone dollar":              {web("entrypoint: sh -c 'echo $1'"), "warning lone-dollar 20:17"},
		"alias":                    {"x-c: &c [sh]\n" + web("entrypoint: *c"), "warning yaml-alias 21:17"},
		"YAML 1.1 boolean":         {web("read_only: yes"), "error yaml-ambiguous 20:16"},
		"base 60":                  {web("ports: [22:22]"), "warning yaml-ambiguous 20:13"},
		"a date":                   {web("environment: {SINCE: 2026-01-31}"), "error yaml-ambiguous 20:26"},
		"a date in a list":         {web("entrypoint: [run, 2026-01-31T08:00:00Z]"), "error yaml-ambiguous 20:23"},
		"an octal number":          {web("environment: {UMASK: 0022}"), "warning yaml-ambiguous 20:26"},
		"a version as number":      {web("labels: {version: 1.10}"), "warning yaml-ambiguous 20:23"},
		"a boolean in capitals":    {web("annotations: {on: True}"), "warning yaml-ambiguous 20:23"},
		"two documents":            {good + "---\n" + good, "error yaml 30:1"},
		"not YAML":                 {"services: [\n", "error yaml 1:1"},
		"a tab":                    {"services:\n\tweb:\n", "error yaml 2:1"},
		"a scalar":                 {"hello", "error yaml 1:1"},
		"empty":                    {"", "error yaml 1:1"},
		"services as a list":       {"services:\n- a\n", "error schema 2:1"},
		"unknown key":              {web("imagee: nginx"), "error schema 18:5"},
		"undeclared volume":        {web("volumes: ['nowhere:/x']"), "error schema 18:5"},
		"not UTF-8":                {good + "x-a: \xff\n", "error text 30:6"},
		"a next-line character":    {good + "x-a: a\u0085b\n", "error yaml-style 30:1"},
		"a byte order mark":        {"\uFEFF" + good, "error yaml-style 1:1"},
		"too large":                {good + "# " + strings.Repeat("x", MaxSize), "error size 1:1"},
		"too deep":                 {good + "x-a: " + strings.Repeat("[", 60) + strings.Repeat("]", 60) + "\n", "error yaml 30:46"},
		"version":                  {"version: '3'\n" + good, "warning obsolete 1:1"},
		"profiles":                 {web("profiles: [debug]"), "warning profile 20:15"},
	} {
		t.Run(name, func(t *testing.T) { wantFinding(t, c.text, c.want) })
	}
}

func wantFinding(t *testing.T, text, want string) {
	t.Helper()
	found := Lint([]byte(text))
	got := brief(found)
	if !slices.Contains(got, want) {
		t.Errorf("want %s in\n%s", want, strings.Join(got, "\n"))
		for _, f := range found {
			t.Log(f)
		}
	}
	if refused := len(Errors(found)) > 0; refused != strings.HasPrefix(want, "error") {
		t.Errorf("refused is %v with %v", refused, found)
	}
}

func TestNumbersThatStayAsTheyAreNeedNoQuotes(t *testing.T) {
	for _, value := range []string{"15", "1.5", "-3", "true", "null", "1.2.3", "'0022'", "\"1.10\"", "'2026-01-31'"} {
		if got := brief(Lint([]byte(web("environment: {A: " + value + "}")))); len(got) > 0 {
			t.Errorf("%s: findings %v", value, got)
		}
	}
	if got := brief(Lint([]byte(web("environment: [UMASK=0022, SINCE=2026-01-31]")))); len(got) > 0 {
		t.Errorf("in a list: findings %v", got)
	}
}

// An anchor on a service is no finding. A wrong use of an anchor is a finding in its own line, and
// a problem behind the anchor is a finding at its place.
func TestATT16_AnchorsOnServices(t *testing.T) {
	anchored := strings.Replace(good, "  web:\n", "  web: &web\n", 1)
	second := func(lines string) string {
		return strings.Replace(anchored, "configs:\n  trust", lines+"configs:\n  trust", 1)
	}
	plain := "  second:\n    image: nginx" + digest + "\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"an anchor":                       {anchored, []string{}},
		"an anchor and a second service":  {second(plain), []string{}},
		"an anchor on all":                {strings.Replace(anchored, "services:\n", "services: &all\n", 1), []string{}},
		"an anchor on keys of a service":  {second(plain + "    environment: &env\n      A: b\n"), []string{}},
		"a service by alias":              {second("  second: *web\n"), []string{"warning yaml-alias 23:11", "error yaml-style 23:1"}},
		"a merge of the service":          {second("  second:\n    <<: *web\n    hostname: b\n"), []string{"error yaml-merge 24:5"}},
		"a merge and an image":            {second(plain + "    <<: *web\n"), []string{"error yaml-merge 25:5"}},
		"a fault in a service with alias": {strings.Replace(second("  second: *web\n"), "    mem_limit:", "    privileged: true\n    mem_limit:", 1), []string{"error privileged 20:17", "error yaml-style 24:1", "warning yaml-alias 24:11"}},
	} {
		got := brief(Lint([]byte(c.text)))
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: findings %q, want %q", name, got, c.want)
		}
	}
}

// Mounts that reach the guest agent, the engine or the guest.
func TestATT14_TOK19_Mounts(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"second mount":          {web("devices: []", "tmpfs: /t", "volumes: ['/var/run/dstack.sock:/s']"), "error guest-socket 22:15"},
		"by the other path":     {web("volumes: ['/run/dstack.sock:/s']"), "error guest-socket 20:15"},
		"with dots":             {web("volumes: ['/var/lib/../run//dstack.sock:/s']"), "error guest-socket 20:15"},
		"tappd":                 {web("volumes: ['/var/run/tappd.sock:/s:ro']"), "error guest-socket 20:15"},
		"its folder":            {web("volumes: ['/var/run:/s']"), "error guest-socket 20:15"},
		"everything":            {web("volumes: ['/:/host:ro']"), "error guest-socket 20:15"},
		"long form":             {web("volumes: [{type: bind, source: /var/run/dstack.sock, target: /s}]"), "error guest-socket 20:15"},
		"escaped":               {web(`volumes: ["/var/run/dst\x61ck.sock:/s"]`), "error guest-socket 20:15"},
		"relative":              {web("volumes: ['../var/run/dstack.sock:/s']"), "error guest-socket 20:15"},
		"by a named volume":     {swap("driver_opts: { type: tmpfs, device: tmpfs }", "driver_opts: { type: none, o: bind, device: /var/run }"), "error guest-socket 29:49"},
		"tmpfs that binds":      {swap("device: tmpfs", "o: bind, device: run"), "error host-mount 29:18"},
		"overlay volume":        {swap("type: tmpfs, device: tmpfs", "type: overlay, device: overlay, o: \"lowerdir=/\""), "error host-mount 29:18"},
		"configfs volume":       {swap("type: tmpfs, device: tmpfs", "type: configfs, device: none"), "error host-mount 29:18"},
		"by volumes_from":       {web("volumes_from: [cadre]"), "error guest-socket 20:20"},
		"by a container":        {web("volumes_from: ['container:x:ro']"), "error guest-socket 20:20"},
		"the agent's folder":    {swap("/var/run/dstack.sock:/var/run", "/var/run:/var/run"), "error guest-socket 11:9"},
		"the agent's, relative": {swap("- /var/run/dstack.sock:", "- ../var/run/dstack.sock:"), "error guest-socket 11:9"},
		"docker.sock":           {web("volumes: ['/var/run/docker.sock:/var/run/docker.sock']"), "error engine-socket 20:15"},
		"docker's data":         {web("volumes: ['/var/lib/docker/volumes:/v']"), "error engine-socket 20:15"},
		"use_api_socket":        {web("use_api_socket: true"), "error engine-socket 20:5"},
		"app keys":              {web("volumes: ['/dstack/.host-shared:/k']"), "error host-mount 20:15"},
		"beside the file":       {web("volumes: ['./.host-shared:/k']"), "error host-mount 20:15"},
		"the project's folder":  {web("volumes: ['.:/k']"), "error host-mount 20:15"},
		"home":                  {web("volumes: ['~/x:/k']"), "error host-mount 20:15"},
		"proc":                  {web("volumes: ['/proc/1/root:/k']"), "error host-mount 20:15"},
		"configfs":              {web("volumes: ['/sys/kernel/config:/k']"), "error host-mount 20:15"},
		"a path of the guest":   {web("volumes: ['/data:/k']"), "error host-mount 20:15"},
		"a folder beside":       {web("volumes: ['./data:/k']"), "error host-mount 20:15"},
		"privileged":            {web("privileged: true"), "error privileged 20:17"},
		"privileged in words":   {web("privileged: \"yes\""), "error privileged 20:17"},
		"privileged hook":       {web("post_start: [{command: [x], privileged: true}]"), "error privileged 20:45"},
		"pid host":              {web("pid: host"), "error host-namespace 20:10"},
		"pid of the agent":      {web("pid: service:cadre"), "error host-namespace 20:10"},
		"pid of a container":    {web("pid: container:x"), "error host-namespace 20:10"},
		"ipc host":              {web("ipc: host"), "error host-namespace 20:10"},
		"uts host":              {web("uts: host"), "warning host-namespace 20:10"},
		"all capabilities":      {web("cap_add: [ALL]"), "error capability 20:15"},
		"SYS_ADMIN":             {web("cap_add: [cap_sys_admin]"), "error capability 20:15"},
		"NET_ADMIN":             {web("cap_add: [NET_ADMIN]"), "warning capability 20:15"},
		"the TDX device":        {web("devices: ['/dev/tdx_guest:/dev/tdx_guest']"), "error device 20:15"},
		"a disk":                {web("devices: [{source: /dev/vda, target: /dev/a}]"), "error device 20:15"},
		"another device":        {web("devices: [/dev/net/tun]"), "warning device 20:15"},
		"a disk by its id":      {web("devices: [/dev/disk/by-id/a]"), "error device 20:15"},
		"a device by a detour":  {web("devices: ['/proc/1/root/dev/vda:/dev/a']"), "error device 20:15"},
		"a device by no path":   {web("devices: ['dev/tdx_guest:/dev/a']"), "error device 20:15"},
		"devices by number":     {web("device_cgroup_rules: ['c *:* rwm']"), "error device 20:26"},
		"unconfined":            {web("security_opt: ['seccomp=unconfined']"), "warning security-opt 20:20"},
	} {
		t.Run(name, func(t *testing.T) { wantFinding(t, c.text, c.want) })
	}
}

// Compose binds the file of a secret or a config like any other path of the guest.
func TestATT14_SecretsAndConfigsBindNoFile(t *testing.T) {
	secret := func(body string) string { return web("secrets: [g]") + "secrets:\n  g: " + body + "\n" }
	config := func(body string) string {
		return strings.Replace(web("configs: [g]"), "configs:\n  trust", "configs:\n  g: "+body+"\n  trust", 1)
	}
	for name, c := range map[string]struct{ text, want string }{
		"the guest's socket":            {secret("{file: /var/run/dstack.sock}"), "error guest-socket 29:13"},
		"the guest's socket, a config":  {config("{file: /var/run/dstack.sock}"), "error guest-socket 22:13"},
		"by dots":                       {secret("{file: ../var/run/dstack.sock}"), "error guest-socket 29:13"},
		"by the home":                   {secret("{file: ~/../run/dstack.sock}"), "error guest-socket 29:13"},
		"everything":                    {secret("{file: /}"), "error guest-socket 29:13"},
		"its folder, relative":          {config("{file: ../run}"), "error guest-socket 22:13"},
		"the engine's socket":           {secret("{file: /var/run/docker.sock}"), "error engine-socket 29:13"},
		"another one's volume":          {secret("{file: /var/lib/docker/volumes/dstack_cadre/_data}"), "error engine-socket 29:13"},
		"a file of the guest":           {secret("{file: /srv/a}"), "error not-measured 29:7"},
		"a file beside":                 {secret("{file: ./a}"), "error not-measured 29:7"},
		"a file called false":           {secret("{file: 'false'}"), "error not-measured 29:7"},
		"by an alias":                   {"x-g: &g {file: /var/run/dstack.sock}\n" + secret("*g"), "error guest-socket 1:16"},
		"for Cadre's own service":       {swap("    configs:\n", "    secrets: [g]\n    configs:\n") + "secrets: {g: {file: /var/run/dstack.sock}}\n", "error guest-socket 31:21"},
		"a secret from the environment": {secret("{environment: G}"), "error not-measured 29:7"},
		"an external secret":            {secret("{external: true}"), "error not-measured 29:7"},
		"used by nobody":                {good + "secrets: {g: {file: /var/run/dstack.sock}}\n", "error guest-socket 30:21"},
	} {
		t.Run(name, func(t *testing.T) { wantFinding(t, c.text, c.want) })
	}
}

// The guest keeps /dstack and the upper layers of /etc and /usr under /var/volatile, and
// a list of such places is never whole: no path of the guest is mounted but the socket,
// by Cadre's service.
func TestATT14_NoPathOfTheGuestIsMounted(t *testing.T) {
	for _, source := range []string{
		"/var/volatile/dstack/.host-shared", "/var/volatile/overlay/etc/upper", "/var/volatile", "/var/lib/other", "/var/log", "/home", "/mnt", "/tmp", "/srv/data", "/opt",
		"./persistent/var/lib", "a/b", "~/x",
	} {
		for name, text := range map[string]string{
			"short":          web("volumes: ['" + strings.Replace(source, "a/b", "./a/b", 1) + ":/k']"),
			"long":           web("volumes: [{type: bind, source: " + source + ", target: /k}]"),
			"Cadre's":        swap("- cadre:/var/lib/cadre", "- {type: bind, source: "+source+", target: /k}"),
			"a named volume": swap("{ type: tmpfs, device: tmpfs }", "{ type: none, o: bind, device: "+source+" }"),
		} {
			found := Errors(Lint([]byte(text)))
			if !slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == RuleHostMount && strings.Contains(f.Fix, "volume") }) {
				t.Errorf("%s, %s: %v", source, name, found)
			}
		}
	}
}

// No property of the machine decides the services.
func TestATT16_NothingComesFromTheMachine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"watched files":   {web("develop: {watch: [{path: /var/run, action: sync, target: /x}]}"), "error not-measured 20:5"},
		"a model":         {web("models: [m]") + "models: {m: {model: a}}\n", "error not-measured 20:5"},
		"a model, unused": {good + "models: {m: {model: a}}\n", "error not-measured 30:1"},
	} {
		t.Run(name, func(t *testing.T) { wantFinding(t, c.text, c.want) })
	}
}

func TestTrustSecretsAndListeners(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no agent":                 {"services:\n  web:\n    image: a" + digest + "\n", "warning no-agent 2:3"},
		"no trust file":            {swap("[--trust-file=/etc/cadre/trust.json, ", "["), "warning trust-not-literal 3:12"},
		"trust from nowhere":       {swap("target: /etc/cadre/trust.json", "target: /etc/other.json"), "error trust-not-literal 6:14"},
		"trust from a volume":      {swap("- mesh:/run/mesh\n    configs", "- mesh:/etc/cadre/trust.json\n    configs"), "error trust-not-literal 13:9"},
		"trust file, two words":    {swap("[--trust-file=/etc/cadre/trust.json, ", "[--trust-file, /elsewhere.json, "), "error trust-not-literal 6:14"},
		"the last trust file wins": {swap("[--trust-file=/etc/cadre/trust.json, ", "[--trust-file=/etc/cadre/trust.json, -trust-file=/x, "), "error trust-not-literal 6:14"},
		"simulated":                {swap(`"demo"`, `"demo","allow_simulated":true`), "warning trust-simulated 25:14"},
		"private key":              {web("environment: {K: \"-----BEGIN EC PRIVATE KEY-----\"}"), "error secret-literal 20:22"},
		"password in a URL":        {web("environment: ['DSN=postgres://app:hunter2@db/app']"), "error secret-literal 20:19"},
		"a password":               {web("environment: {POSTGRES_PASSWORD: hunter2}"), "warning secret-literal 20:38"},
		"a key in a config":        {swap(`{"cluster":"demo"}`, "-----BEGIN PRIVATE KEY-----"), "error secret-literal 25:14"},
		"Consul's port":            {web("ports: ['8500:8500']"), "error consul-exposed 20:13"},
		"Consul's port in a range": {web("ports: ['0.0.0.0:8300-8310:8300-8310/tcp']"), "error consul-exposed 20:13"},
		"Consul's port, long":      {web("ports: [{target: 8600, published: '53', protocol: udp}]"), "error consul-exposed 20:13"},
		"Consul on all addresses":  {web("entrypoint: [consul, agent, -client=0.0.0.0]"), "error consul-exposed 20:17"},
		"Consul by its config":     {swap(`{"cluster":"demo"}`, `client_addr = "0.0.0.0"`), "error consul-exposed 25:14"},
	} {
		t.Run(name, func(t *testing.T) { wantFinding(t, c.text, c.want) })
	}
	for name, text := range map[string]string{
		"Consul's port on loopback": web("ports: ['127.0.0.1:8500:8500', '[::1]:8600:53/udp']"),
		"another port":              web("ports: ['80:8080']"),
		"password by file":          web("environment: {PGPASSFILE: /run/mesh/p, DB_PASSWORD_FILE: /run/p, TOKEN: \"\"}"),
		"passed on":                 web("environment: [CADRE_PATHS]"),
		"password by variable":      web("environment: {DB_PASSWORD: \"${DB_PASSWORD}\"}"),
		"sizes":                     web("cpus: ${C}", "pids_limit: ${P}", "hostname: ${H}", "labels: {a: \"${L}\"}"),
	} {
		if got := Lint([]byte(text)); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestATT17_EnvNames(t *testing.T) {
	got := EnvNames([]string{"CADRE_PATHS", "LD_PRELOAD", "COMPOSE_FILE", "PATHS", "PATH", "DB"})
	if len(got) != 3 || got[0].Path != "LD_PRELOAD" || got[1].Path != "COMPOSE_FILE" || got[2].Path != "PATH" {
		t.Errorf("findings %v", got)
	}
}

func TestFindingsAreBoundedAndSorted(t *testing.T) {
	var b strings.Builder
	b.WriteString("services:\n")
	for i := range 500 {
		fmt.Fprintf(&b, "  s%d:\n    image: a\n", i)
	}
	got := Lint([]byte(b.String()))
	if len(got) > maxFindings {
		t.Errorf("%d findings", len(got))
	}
	if !slices.IsSortedFunc(got, func(a, b Finding) int { return a.Line - b.Line }) {
		t.Error("not sorted")
	}
}

// Every rule is explained.
func TestRulesAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/guides/compose.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Rules() {
		if !strings.Contains(string(doc), "`"+string(rule)+"`") {
			t.Errorf("rule %s is not in docs/guides/compose.md", rule)
		}
	}
}

func TestAppCompose(t *testing.T) {
	findings := AppCompose([]byte(`{"runner":"bash","bash_script":"x","kms_enabled":true,"allowed_envs":["DB","LD_PRELOAD"],"verity_volumes":[],`+
		`"docker_compose_file":"services:\n  a:\n    image: nginx\n"}`+"\n"), appcompose.Rules{})
	got := []string{}
	for _, f := range findings {
		got = append(got, f.String())
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{
		`runner is "bash", must be "docker-compose"`, "bash_script is", "ends with a newline", `allowed_envs[1] "LD_PRELOAD" is not measured`, "[env-name]",
		"secure_time is missing", "manifest_version is missing: write 2", "verity_volumes mounts volumes",
		"docker_compose_file:3:12: error: services.a.image is \"nginx\"",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if got := AppCompose([]byte("services:\n"), appcompose.Rules{}); len(got) != 1 || !strings.Contains(got[0].Message, "not of the docker compose file") {
		t.Errorf("a compose file: %v", got)
	}
}

// Lint reports each document that admission rejects as an error, with its key.
func TestThreat_ATT_16_LintRefusesEachBadDocument(t *testing.T) {
	good := appcomposetest.Good("demo-web", "services:\n  cadre:\n    image: a@sha256:"+strings.Repeat("0", 64)+"\n")
	if found := Errors(AppCompose(good, appcompose.Rules{})); len(found) > 0 {
		t.Fatalf("a rendered document: %v", found)
	}
	cases, err := appcomposetest.Bad(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if len(Errors(AppCompose(c.Raw, appcompose.Rules{}))) == 0 {
			t.Errorf("%s has no error", c.Name)
		}
	}
}

// TestRestartsOfThisBootAreFine: good has one of them, another is not to restart at all.
func TestRestartsOfThisBootAreFine(t *testing.T) {
	for _, policy := range []string{"restart: \"no\"", "deploy: {restart_policy: {condition: none}}"} {
		text := strings.Replace(good, "restart: unless-stopped", policy, 1)
		if got := brief(Lint([]byte(text))); text == good || len(got) > 0 {
			t.Errorf("%s: %v", policy, got)
		}
	}
}

// TestATT36_AMeasuredTextHasItsMark: app-compose.json has the mark that Cadre wrote.
func TestATT36_AMeasuredTextHasItsMark(t *testing.T) {
	measured := appcompose.Marked(good)
	if got := brief(Lint([]byte(measured))); measured == good || len(got) > 0 {
		t.Errorf("a measured text: %v", got)
	}
	if got := brief(Lint([]byte(measured + "# another\n"))); len(got) != 2 || !strings.HasPrefix(got[0], "error revision-mark") {
		t.Errorf("the mark of another text: %v", got)
	}
}
