package appcompose

import (
	"fmt"
	"slices"
	"strings"
)

// shellSteering are the names of environment variables that decide which code runs in the guest, in
// addition to processSteering. dstack loads the encrypted environment, which every holder of the
// app's public key can write, into the root shell that runs the pre-launch script and `docker
// compose up`. For that shell whole families are rejected, regardless of single names. A name with
// "*" at its end is a prefix.
var shellSteering = []string{
	// dstack's own scripts, and the names that Phala Cloud's script reads: root's password and
	// keys.
	"APP_COMPOSE_*", "DSTACK_*", "TAPPD_*",
	// Which engine is talked to, which files it composes, with which plugins and credentials.
	"COMPOSE_*", "DOCKER_*", "BUILDKIT*", "BUILDX_*", "CONTAINERD_*", "CONTAINERS_*", "XDG_*", "PASSWORD_STORE_*", "SSH_*",
	// The loader and the C library, shells, the service manager of the guest, programs that others start.
	"LD_*", "DYLD_*", "MALLOC_*", "MEMUSAGE*", "SEGFAULT_*", "RESOLV_*", "NSS_*", "BASH_*", "TEXTDOMAIN*",
	"SYSTEMD_*", "NOTIFY_SOCKET", "LISTEN_*", "JOURNAL_STREAM", "INVOCATION_ID", "WATCHDOG_*", "CREDENTIALS_DIRECTORY", "DBUS_*",
	"GIT_*", "RSYNC_*", "TERMINFO*",
	// Language runtimes, and whom they believe.
	"PYTHON*", "PERL5*", "PERL_*", "GEM_*", "BUNDLE_*", "LUA_*", "GUILE_LOAD_*", "ERL_*", "DOTNET_*", "CORECLR_*", "COR_*",
	"SSL_CERT_*", "CURL_*", "OPENSSL_*", "GNUTLS_*", "P11_KIT_*", "KRB5*",
}

// processSteering are the names that decide which code any process runs, or which data it trusts: a
// container takes none of them from the encrypted environment. They are single names, since a
// container has names of its own (LD_SUPERUSER_NAME, DOCKER_INFLUXDB_INIT_USERNAME). The names with
// "*" are families that the program itself numbers.
var processSteering = []string{
	// Engines and guest agents that a client talks to.
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST", "CONTAINERD_ADDRESS",
	"CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE", "CONTAINERS_REGISTRIES_CONF", "CONTAINERS_STORAGE_CONF", "REGISTRY_AUTH_FILE",
	"DSTACK_SIMULATOR_ENDPOINT", "TAPPD_SIMULATOR_ENDPOINT", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS",
	"GNUPGHOME", "PASSWORD_STORE_DIR", "SSH_ASKPASS", "SSH_AUTH_SOCK", "SSH_SK_PROVIDER", "SSH_SK_HELPER", "SSH_PKCS11_HELPER",
	// The loader and the C library.
	"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "LD_ORIGIN_PATH", "LD_PROFILE", "LD_PROFILE_OUTPUT", "LD_DEBUG_OUTPUT",
	"GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "NLSPATH", "MALLOC_CONF", "MALLOC_TRACE", "MEMUSAGE_OUTPUT", "PCPROFILE_OUTPUT",
	"GMON_OUT_PREFIX", "SEGFAULT_OUTPUT_NAME", "TZDIR", "HOSTALIASES", "RES_OPTIONS", "RESOLV_HOST_CONF", "LOCALDOMAIN", "NIS_PATH",
	"NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP",
	// Shells: files that they read before a script, and how they find and split commands.
	"BASH_ENV", "BASH_FUNC_*", "BASH_LOADABLES_PATH", "BASH_XTRACEFD", "BASHOPTS", "BASHPID", "ENV", "SHELL", "SHELLOPTS", "PATH", "CDPATH", "IFS",
	"PS0", "PS1", "PS2", "PS3", "PS4", "PROMPT_COMMAND", "GLOBIGNORE", "EXECIGNORE", "FIGNORE", "POSIXLY_CORRECT", "INPUTRC", "HISTFILE",
	"TEXTDOMAIN", "TEXTDOMAINDIR", "ZDOTDIR", "FPATH",
	"HOME", "PWD", "OLDPWD", "TMPDIR", "TMP", "TEMP", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
	// Programs that other programs start.
	"EDITOR", "VISUAL", "PAGER", "MANPAGER", "BROWSER", "LESS", "LESSOPEN", "LESSCLOSE", "MAKEFLAGS", "MAKEFILES",
	"GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "GIT_CONFIG", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS",
	"GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR", "GIT_DIR", "GIT_COMMON_DIR",
	"GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SSL_NO_VERIFY", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
	"RSYNC_RSH", "RSYNC_CONNECT_PROG", "GREP_OPTIONS", "TAR_OPTIONS", "GZIP", "AWKPATH", "AWKLIBPATH", "WGETRC", "NETRC", "TERMINFO", "TERMINFO_DIRS", "TERMCAP",
	// Language runtimes: code that they load first.
	"GODEBUG", "GOTRACEBACK", "GOCOVERDIR", "GORACE", "GOROOT",
	"PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONEXECUTABLE", "PYTHONPLATLIBDIR", "PYTHONUSERBASE", "PYTHONWARNINGS", "PYTHONBREAKPOINT",
	"PYTHONPYCACHEPREFIX", "PERL5LIB", "PERL5OPT", "PERL5DB", "PERL5SHELL", "PERLLIB", "PERL_MM_OPT", "PERL_MB_OPT", "PERL_LOCAL_LIB_ROOT",
	"RUBYOPT", "RUBYLIB", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE", "BUNDLE_PATH", "BUNDLE_BIN_PATH", "BUNDLE_APP_CONFIG", "BUNDLE_USER_HOME", "BUNDLE_USER_CONFIG",
	"NODE_OPTIONS", "NODE_PATH", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "LUA_PATH*", "LUA_CPATH*", "LUA_INIT*",
	"CLASSPATH", "JAVA_HOME", "JAVA_OPTS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JRE_HOME",
	"PHPRC", "PHP_INI_SCAN_DIR", "TCLLIBPATH", "GUILE_LOAD_PATH", "GUILE_LOAD_COMPILED_PATH", "ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS", "ERL_LIBS", "ERL_INETRC",
	"ELIXIR_ERL_OPTIONS", "DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "DOTNET_ROOT*", "DOTNET_HOST_PATH", "DOTNET_BUNDLE_EXTRACT_BASE_DIR",
	"DOTNET_DiagnosticPorts", "CORECLR_ENABLE_PROFILING", "CORECLR_PROFILER*", "COR_ENABLE_PROFILING", "COR_PROFILER*",
	// Trust in servers' certificates, and logs of session keys.
	"SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "CURL_CA_BUNDLE", "CURL_HOME", "OPENSSL_CONF", "OPENSSL_CONF_INCLUDE", "OPENSSL_MODULES", "OPENSSL_ENGINES",
	"REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "GNUTLS_SYSTEM_PRIORITY_FILE",
	"KRB5_CONFIG", "KRB5_KDC_PROFILE", "KRB5_KTNAME", "KRB5_CLIENT_KTNAME", "KRB5CCNAME",
}

// proxySuffix ends the names that send a process's requests elsewhere; programs read them in either
// case. proxies are the names that programs read.
const proxySuffix = "_PROXY"

var proxies = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY", "SOCKS_PROXY", "SOCKS5_PROXY", "RSYNC_PROXY", "WS_PROXY", "WSS_PROXY", "GRPC_PROXY"}

// Steering lists the patterns of names that the encrypted environment must not set:
// a name, or a prefix that ends in "*", or a suffix that begins with "*" and counts
// in either case.
func Steering() []string {
	return append(slices.Concat(shellSteering, processSteering), "*"+proxySuffix)
}

// Steers reports a name that the encrypted environment must not set, since it decides in the guest which
// code a process runs, or whom it believes.
func Steers(name string) bool {
	return strings.HasSuffix(strings.ToUpper(name), proxySuffix) || matches(shellSteering, name) || matches(processSteering, name)
}

// SteersContainer reports a name that decides so in a container, whose environment is its own: a value of
// it is not to come from outside of the measured text.
func SteersContainer(name string) bool {
	return slices.Contains(proxies, strings.ToUpper(name)) || matches(processSteering, name)
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(n string) bool {
		prefix, wild := strings.CutSuffix(n, "*")
		return name == n || wild && strings.HasPrefix(name, prefix)
	})
}

const (
	// maxEnvName is dstack's bound of a name, in bytes.
	maxEnvName = 255
	// maxEnvs bounds allowed_envs; dstack takes as many.
	maxEnvs = 1024
	// cadrePrefix begins the names that Cadre's programs read.
	cadrePrefix = "CADRE_"
)

// RestoreClusterIDEnv has the cluster ID of a backup that coordinators with empty disks wait for.
const RestoreClusterIDEnv = "CADRE_RESTORE_CLUSTER_ID"

// memberLocators and coordinatorNames are the names that Cadre's programs read from the encrypted
// environment. Their values are locations and are never trusted. The one secret is the platform's
// key, which only coordinators have.
var (
	memberLocators   = []string{"CADRE_GATEWAY_ADDRESS", "CADRE_GATEWAY_DOMAIN", "CADRE_PATHS", "CADRE_RENDEZVOUS", "CADRE_RENDEZVOUS_CA"}
	coordinatorNames = append([]string{"CADRE_PLATFORM_API", "CADRE_PLATFORM_API_KEY", RestoreClusterIDEnv, "CADRE_SLOT"}, memberLocators...)
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
		return "is not measured, and dstack loads it into the guest's root shell, where names like it decide which code runs or whom a process believes"
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

// EnvNameFix is the way out for a name that the encrypted environment must not set.
func EnvNameFix(name string) string {
	if name == "ENV" {
		return "rename it, for example to APP_ENV, and have the program read that name: a shell runs the file that ENV names"
	}
	const literal = "write the value into the compose file, under environment of the service that needs it"
	if SteersContainer(name) || !Steers(name) {
		return literal
	}
	return fmt.Sprintf("%s, or give it under another name, and write %s: ${OTHER_NAME} there", literal, name)
}

// Beyond returns the first name of allowed that is in neither names nor locators; "" if there is
// none. No approval covers a name beyond them.
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

// SplitNames reads the output of JoinNames; nil for "".
func SplitNames(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func beyondText(name string) string {
	return fmt.Sprintf("names %.80q, which is neither in the Revision's env nor one of Cadre's locators", name)
}
