package appcompose

import (
	"fmt"
	"slices"
	"strings"
)

// steering are the names of environment variables that decide which code a process
// runs, or what it believes. dstack loads the encrypted environment, which whoever
// has the app's public key can write, into the root shell that runs the pre-launch
// script and `docker compose up`; a compose file may pass it on into containers. A
// name with "*" at its end is a prefix.
var steering = []string{
	// dstack's own scripts, and what Phala Cloud's script reads: root's password and keys.
	"APP_COMPOSE_*", "DSTACK_*", "TAPPD_*",
	// Which engine is talked to, which files it composes, with which plugins and credentials.
	"COMPOSE_*", "DOCKER_*", "BUILDKIT*", "BUILDX_*", "CONTAINERD_*", "CONTAINER_HOST", "CONTAINERS_*", "REGISTRY_AUTH_FILE", "XDG_*",
	"GNUPGHOME", "PASSWORD_STORE_*", "SSH_*",
	// The loader and the C library.
	"LD_*", "DYLD_*", "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "NLSPATH", "MALLOC_*", "MEMUSAGE*", "PCPROFILE_OUTPUT",
	"GMON_OUT_PREFIX", "SEGFAULT_*", "TZDIR", "HOSTALIASES", "RES_OPTIONS", "RESOLV_*", "LOCALDOMAIN", "NIS_PATH", "NSS_*",
	// Shells: what they read before a script, and how they find and split what it calls.
	"BASH_*", "BASHOPTS", "BASHPID", "ENV", "SHELL", "SHELLOPTS", "PATH", "CDPATH", "IFS", "PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT_COMMAND",
	"GLOBIGNORE", "EXECIGNORE", "FIGNORE", "POSIXLY_CORRECT", "INPUTRC", "HISTFILE", "TEXTDOMAIN*", "ZDOTDIR", "FPATH",
	"HOME", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP",
	// The service manager of the guest.
	"SYSTEMD_*", "NOTIFY_SOCKET", "LISTEN_*", "JOURNAL_STREAM", "INVOCATION_ID", "WATCHDOG_*", "CREDENTIALS_DIRECTORY", "DBUS_*",
	// Programs that other programs start.
	"EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "LESS", "LESSOPEN", "LESSCLOSE", "MAKEFLAGS", "MAKEFILES", "GIT_*", "RSYNC_*",
	"GREP_OPTIONS", "TAR_OPTIONS", "GZIP", "AWKPATH", "AWKLIBPATH", "WGETRC", "NETRC", "TERMINFO*", "TERMCAP",
	// Language runtimes: what they load first.
	"GODEBUG", "GOTRACEBACK", "GOCOVERDIR", "GORACE", "GOROOT",
	"PYTHON*", "PERL5*", "PERLLIB", "PERL_*", "RUBYOPT", "RUBYLIB", "GEM_*", "BUNDLE_*", "NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS",
	"NODE_TLS_REJECT_UNAUTHORIZED", "LUA_*", "CLASSPATH", "JAVA_HOME", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS",
	"JRE_HOME", "PHPRC", "PHP_INI_SCAN_DIR", "TCLLIBPATH", "GUILE_LOAD_*", "ERL_*", "ELIXIR_ERL_OPTIONS", "DOTNET_*", "CORECLR_*", "COR_*",
	// What is believed to be a server, and who reads along.
	"SSL_CERT_*", "SSLKEYLOGFILE", "CURL_*", "OPENSSL_*", "REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	"GNUTLS_*", "P11_KIT_*", "KRB5*",
}

// proxySuffix ends the names that send a process's requests elsewhere; programs read
// them in either case.
const proxySuffix = "_PROXY"

// Steering lists the patterns of names that the encrypted environment must not set:
// a name, or a prefix that ends in "*", or a suffix that begins with "*" and counts
// in either case.
func Steering() []string { return append(slices.Clone(steering), "*"+proxySuffix) }

// Steers reports a name that decides which code a process runs, or whom it believes.
func Steers(name string) bool {
	return strings.HasSuffix(strings.ToUpper(name), proxySuffix) || slices.ContainsFunc(steering, func(n string) bool {
		prefix, wild := strings.CutSuffix(n, "*")
		return name == n || wild && strings.HasPrefix(name, prefix)
	})
}

const (
	// maxEnvName is dstack's bound of a name, in bytes.
	maxEnvName = 255
	// maxEnvs bounds allowed_envs; dstack takes as many.
	maxEnvs = 1024
	// cadrePrefix names what Cadre's programs read.
	cadrePrefix = "CADRE_"
)

// memberLocators and coordinatorNames are what Cadre's programs read from the
// encrypted environment. They say where something is and are never trusted; the
// platform's key, which only coordinators have, is the exception that is a secret.
var (
	memberLocators   = []string{"CADRE_GATEWAY_ADDRESS", "CADRE_GATEWAY_DOMAIN", "CADRE_PATHS", "CADRE_RENDEZVOUS", "CADRE_RENDEZVOUS_CA"}
	coordinatorNames = append([]string{"CADRE_PLATFORM_API", "CADRE_PLATFORM_API_KEY", "CADRE_SLOT"}, memberLocators...)
)

// MemberLocators are the names that agents read as locators, sorted.
func MemberLocators() []string { return slices.Clone(memberLocators) }

// CoordinatorNames are the names that coordinators read, sorted.
func CoordinatorNames() []string {
	out := slices.Clone(coordinatorNames)
	slices.Sort(out)
	return out
}

// EnvNameProblem says why the encrypted environment must not set name; "" if it may.
func EnvNameProblem(name string) string {
	switch {
	case !envName(name):
		return "is not a variable name: letters, digits and '_', not starting with a digit, at most 255 bytes"
	case Steers(name):
		return "is not measured, and decides which code runs or whom a process believes"
	case strings.HasPrefix(name, cadrePrefix) && !slices.Contains(coordinatorNames, name):
		return "is reserved: of CADRE_* only " + strings.Join(CoordinatorNames(), ", ") + " are read from the environment"
	}
	return ""
}

func envName(name string) bool {
	if name == "" || len(name) > maxEnvName || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// Beyond is the first name of allowed that is in neither names nor locators; "" if
// there is none. What is allowed beyond them was chosen by nobody who was approved.
func Beyond(allowed, names, locators []string) string {
	for _, name := range allowed {
		if !slices.Contains(names, name) && !slices.Contains(locators, name) {
			return name
		}
	}
	return ""
}

// JoinNames writes names as one text for a record: sorted, each once, with commas.
// SplitNames reads it.
func JoinNames(names []string) string {
	out := slices.Clone(names)
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

// SplitNames reads what JoinNames wrote; nil for "".
func SplitNames(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func beyondText(name string) string {
	return fmt.Sprintf("names %.80q, which is neither in the env of what is to run nor one of Cadre's locators", name)
}
