package appcompose

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// key is one key of the document that Cadre accepts, with the values that it may have.
type key struct {
	name string
	// must says why the key has to be there; "" if it may be left out.
	must string
	// values describes the accepted values in words, for people and for the documentation.
	values string
	fix    string
	check  func(*judge, key, json.RawMessage)
}

// keys is the closed list. A key that dstack does not know today is rejected like a key that dstack
// knows and Cadre has not judged.
var keys = []key{
	{name: "manifest_version", must: "fixes how the rest is read", values: `2, or "3" (a text) from guest images 0.6 on`, fix: `write 2, or "3"`, check: literal("2", `"3"`)},
	{name: "name", values: "up to 128 letters, digits, '.', '_' and '-'", fix: "use letters, digits, '.', '_' and '-'", check: appName},
	{name: "runner", must: "fixes what is run", values: `"docker-compose"`, fix: `write "docker-compose"`, check: literal(`"docker-compose"`)},
	{name: "docker_compose_file", must: "is what runs", values: "the compose text", fix: "give the text of a compose file", check: composeText},
	{name: "allowed_envs", values: "names of the Revision's env and Cadre's locators, none of which steers code", check: allowedEnvs},
	{name: "features", values: `"kms" and "tproxy-net", each at most once`, fix: `keep "kms" and "tproxy-net" only`, check: features},
	{name: "kms_enabled", must: "keeps the app id and its keys over updates", values: "true", fix: "write true: without a KMS the app id changes with each compose hash and keys do not survive", check: literal("true")},
	{name: "key_provider", values: `"kms"`, fix: `write "kms", or leave it out`, check: literal(`"kms"`)},
	{name: "key_provider_id", values: "empty, or the pinned key provider's id", fix: "leave it empty", check: keyProviderID},
	{name: "local_key_provider_enabled", values: "false", fix: "write false", check: literal("false")},
	{name: "gateway_enabled", values: "true or false", fix: "write true or false", check: literal("true", "false")},
	{name: "tproxy_enabled", values: "the same as gateway_enabled, whose old name it is", fix: "write true or false", check: literal("true", "false")},
	{name: "public_logs", values: "false", fix: "write false: everybody could read what the containers print", check: literal("false")},
	{name: "public_sysinfo", values: "true or false", fix: "write true or false", check: literal("true", "false")},
	{name: "public_tcbinfo", values: "true or false", fix: "write true or false", check: literal("true", "false")},
	{name: "no_instance_id", values: "false", fix: "write false: instances could not be distinguished", check: literal("false")},
	{name: "secure_time", must: "keeps the host from choosing the time by which certificates are judged", values: "true; also false where the trust file has secure_time_off", fix: "write true, or set secure_time_off in the trust file: the host then chooses the time by which certificates are judged, within what docs/explanation/attestation.md says", check: secureTime},
	{name: "storage_fs", values: `"zfs" or "ext4"`, fix: `write "zfs" or "ext4", or leave it out`, check: literal(`"zfs"`, `"ext4"`)},
	{name: "swap_size", values: "a whole number of bytes, at most 1 TiB", fix: "write a whole number of bytes", check: swapSize},
	{name: "requirements", values: "the GPU checks of a guest image 0.6 before it boots; see [guest images 0.6](#guest-images-06)", check: requirements},
	{name: "event_log_version", values: "1 or 2", fix: "write 1 or 2, or leave it out", check: literal("1", "2")},
	{name: "port_policy", values: "`ports` with `port` and `pp`, and `restrict_mode`", check: portPolicy},
	{name: "salt", values: "up to 128 letters, digits, '-' and '_'", fix: "use up to 128 letters, digits, '-' and '_'", check: salt},
	{name: "default_gateway_domain", values: "a domain name", fix: "write a domain name", check: gatewayDomain},
	{name: "pre_launch_script", values: "empty, the text that Cadre renders, or a text whose SHA-256 the trust file lists in pre_launch_scripts_sha256", check: script},
	{name: "bash_script", values: "empty", fix: "leave it out: it runs as root in the guest", check: literal(`""`)},
	{name: "init_script", must: "keeps containers of an earlier boot from running under this measurement", values: "the one text that Cadre renders", fix: "write the text that `cadre compose hash --from-docker-compose --init-script` builds", check: initScript},
}

// refused are keys that dstack knows, with why none of their values is accepted.
var refused = map[string]string{
	"verity_volumes": "mounts volumes that the compose text does not name",
	"docker_config":  "carries registry credentials, and chooses where images come from",
	"snapshotter":    "is for a runner that Cadre has not judged",
	"no_tee":         "switches the encryption of memory and disk off",
	"gpu_policy":     "belongs into requirements",
	"ssh_keys":       "opens a shell in the guest",
}

// Key is one row of the closed list, for the documentation.
type Key struct {
	Name, Values string
	Required     bool
}

// Keys is the closed list.
func Keys() []Key {
	out := make([]Key, len(keys))
	for i, k := range keys {
		out[i] = Key{Name: k.name, Values: k.values, Required: k.must != ""}
	}
	return out
}

// literal accepts exactly these JSON texts.
func literal(texts ...string) func(*judge, key, json.RawMessage) {
	return func(j *judge, k key, value json.RawMessage) {
		if text := string(bytes.TrimSpace(value)); !slices.Contains(texts, text) {
			j.add(k.name, fmt.Sprintf("is %s, must be %s", truncated(text), strings.Join(texts, " or ")), k.fix)
		}
	}
}

// secureTime takes false where the cluster's trust file says so.
func secureTime(j *judge, k key, value json.RawMessage) {
	accepted := []string{"true"}
	if j.rules.SecureTimeOff {
		accepted = append(accepted, "false")
	}
	literal(accepted...)(j, k, value)
}

func (j *judge) text(k key, value json.RawMessage) (string, bool) {
	var text *string
	if err := json.Unmarshal(value, &text); err != nil || text == nil {
		j.add(k.name, "is not a text", k.fix)
		return "", false
	}
	return *text, true
}

func appName(j *judge, k key, value json.RawMessage) {
	text, ok := j.text(k, value)
	if !ok {
		return
	}
	j.out.Name = text
	if len(text) > 128 || strings.ContainsFunc(text, func(r rune) bool {
		return r != '.' && r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		j.add(k.name, fmt.Sprintf("is %.80q, which is no name", text), k.fix)
	}
}

func composeText(j *judge, k key, value json.RawMessage) {
	text, ok := j.text(k, value)
	if j.out.Compose = text; ok && strings.TrimSpace(text) == "" {
		j.add(k.name, "is empty", k.fix)
	}
}

func allowedEnvs(j *judge, k key, value json.RawMessage) {
	var names []*string
	if err := json.Unmarshal(value, &names); err != nil || names == nil {
		j.add(k.name, "is not a list of names", "write a list, [] for none")
		return
	}
	if len(names) > maxEnvs {
		j.add(k.name, fmt.Sprintf("has %d names, at most %d are allowed", len(names), maxEnvs), "write what is not secret into the compose file")
		return
	}
	seen := map[string]bool{}
	for i, name := range names {
		path := fmt.Sprintf("%s[%d]", k.name, i)
		if name == nil {
			j.add(path, "is not a name", "")
			continue
		}
		j.out.Envs = append(j.out.Envs, *name)
		if seen[*name] {
			j.add(path, fmt.Sprintf("names %.80q twice", *name), "name it once")
		}
		seen[*name] = true
		if problem := EnvNameProblem(*name); problem != "" {
			j.add(path, fmt.Sprintf("%.80q %s", *name, problem), EnvNameFix(*name))
		}
	}
}

func features(j *judge, k key, value json.RawMessage) {
	var names []string
	if err := json.Unmarshal(value, &names); err != nil || names == nil {
		j.add(k.name, "is not a list of texts", k.fix)
		return
	}
	seen := map[string]bool{}
	for _, name := range names {
		if name != "kms" && name != "tproxy-net" || seen[name] {
			j.add(k.name, fmt.Sprintf("has %.80q", name), k.fix)
		}
		seen[name] = true
	}
}

func keyProviderID(j *judge, k key, value json.RawMessage) {
	text, ok := j.text(k, value)
	if ok && text != "" && (j.rules.KeyProviderID == "" || text != j.rules.KeyProviderID) {
		j.add(k.name, fmt.Sprintf("is %.80q, which is not the pinned key provider", text), k.fix)
	}
}

const maxSwap = 1 << 40

func swapSize(j *judge, k key, value json.RawMessage) {
	text := string(bytes.TrimSpace(value))
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > maxSwap || text != strconv.FormatUint(n, 10) {
		j.add(k.name, fmt.Sprintf("is %s", truncated(text)), k.fix)
	}
}

// initScript takes the one text: any other runs as root in the guest, and without one the
// containers of the boot before run first.
func initScript(j *judge, k key, value json.RawMessage) {
	if text, ok := j.text(k, value); ok && text != InitScript {
		j.add(k.name, "is another text than Cadre's own", k.fix)
	}
}

// script: the text runs as root in the guest before the services, so another text than
// Cadre's own is taken by its digest alone.
func script(j *judge, k key, value json.RawMessage) {
	text, ok := j.text(k, value)
	if !ok || text == "" || text == PreLaunchScript {
		return
	}
	sum := sha256.Sum256([]byte(text))
	if digest := hex.EncodeToString(sum[:]); !slices.Contains(j.rules.Scripts, digest) {
		j.add(k.name, fmt.Sprintf("(SHA-256 %s) is not one of the allowed ones", digest),
			"write the text that Cadre renders; where the platform adds its own, read it, and list that digest in pre_launch_scripts_sha256 of the trust file")
	}
}
