package lint

import (
	"slices"
	"strings"
	"testing"
)

// A container's own names may be filled in from the encrypted environment, also when they resemble
// a shell family. A name that a loader, a shell or a runtime reads may not, in either form.
func TestATT17_ContainersTakeNamesThatSteerNothing(t *testing.T) {
	for _, name := range []string{
		"TRUST_PROXY", "NGINX_PROXY", "LD_SUPERUSER_NAME", "DOCKER_INFLUXDB_INIT_USERNAME", "DOCKER_INFLUXDB_INIT_MODE", "DSTACK_APP_ID", "DSTACK_GATEWAY_DOMAIN",
		"TAPPD_MODE", "COMPOSE_NAME", "LISTEN_ADDRESS", "LISTEN_PORT", "WATCHDOG_INTERVAL", "NSS_TEAM", "GIT_COMMIT", "GIT_SHA", "SSH_PORT", "DBUS_LEVEL",
		"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "MALLOC_ARENA_MAX", "CURL_TIMEOUT", "DOTNET_ENVIRONMENT", "KRB5_REALM", "RSYNC_USER", "GEM_VERSION", "BASH_PROMPT",
	} {
		for _, form := range []string{"{NAME: \"${VALUE}\"}", "[\"NAME=$VALUE\"]", "[NAME]"} {
			text := web("environment: " + strings.Replace(form, "NAME", name, 1))
			if found := Errors(Lint([]byte(text))); len(found) > 0 {
				t.Errorf("%s as %s: %v", name, form, found)
			}
		}
	}
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GLIBC_TUNABLES", "GCONV_PATH", "BASH_ENV", "BASH_FUNC_ls", "ENV", "PATH", "IFS", "PS4", "SHELLOPTS", "PROMPT_COMMAND", "HOME",
		"PYTHONPATH", "PYTHONSTARTUP", "PYTHONWARNINGS", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "NODE_OPTIONS", "LUA_INIT", "LUA_INIT_5_4", "JAVA_TOOL_OPTIONS", "CLASSPATH",
		"DOTNET_STARTUP_HOOKS", "CORECLR_PROFILER_PATH_64", "ERL_FLAGS", "GEM_PATH", "BUNDLE_GEMFILE", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "RSYNC_RSH", "SSH_ASKPASS",
		"HTTP_PROXY", "http_proxy", "Https_Proxy", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "OPENSSL_CONF", "CURL_CA_BUNDLE", "SSLKEYLOGFILE", "KRB5_CONFIG", "HOSTALIASES",
		"DOCKER_HOST", "DSTACK_SIMULATOR_ENDPOINT", "MALLOC_CONF",
	} {
		for _, form := range []string{"{NAME: \"${VALUE}\"}", "[\"NAME=$VALUE\"]", "[NAME]"} {
			text := web("environment: " + strings.Replace(form, "NAME", name, 1))
			found := Errors(Lint([]byte(text)))
			if len(found) != 1 || found[0].Rule != RuleVariable || !strings.Contains(found[0].Message, "not measured, and "+name+" decides") || found[0].Fix != "write the value out" {
				t.Errorf("%s as %s: %v", name, form, found)
			}
		}
		if found := EnvNames([]string{name}); len(found) != 1 {
			t.Errorf("%s in the encrypted environment: %v", name, found)
		}
		if found := Errors(Lint([]byte(web("environment: {" + name + ": a}")))); slices.ContainsFunc(found, func(f Finding) bool { return f.Rule == RuleVariable }) {
			t.Errorf("%s in the measured text: %v", name, found)
		}
	}
}

// The guest's shell knows families of names; an operator who means a container's own name gets the way to another one.
func TestATT17_TheGuestsShellTakesNoFamily(t *testing.T) {
	for name, fix := range map[string]string{
		"TRUST_PROXY":       "write TRUST_PROXY: ${OTHER_NAME} there",
		"LD_SUPERUSER_NAME": "write LD_SUPERUSER_NAME: ${OTHER_NAME} there",
		"LD_PRELOAD":        "under environment of the service that needs it",
		"https_proxy":       "under environment of the service that needs it",
	} {
		found := EnvNames([]string{name})
		if len(found) != 1 || !strings.HasSuffix(found[0].Fix, fix) || !strings.Contains(found[0].Message, "root shell") {
			t.Errorf("%s: %v", name, found)
		}
	}
}
