package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// Config has the paths and settings of init.
type Config struct {
	// ServiceMesh is the folder that the agent writes: ready, env and hosts are read.
	ServiceMesh string
	// Commands is the folder that the agent and this service alone share; commands are
	// taken there if it exists.
	Commands string
	// AgentUID is the user that may send commands.
	AgentUID int
	// Hosts is the file that has the names of Peers and routes as long as the workload runs;
	// "" for none.
	Hosts string
	// Mark is the revision mark of the compose text that started this container; "" if there is
	// none. If the agent's mark differs, the container is of an earlier revision and runs nothing.
	Mark string
	// User is whom the workload and commands run as, "name", "id" or with ":group"; "" for the
	// user of this process.
	User string
}

// Exit codes of init itself; the others are the workload's.
const (
	ExitUsage      = 64
	exitFailed     = 70
	exitCannotRun  = 126
	exitNotFound   = 127
	exitSignalBase = 128
	readyPoll      = 50 * time.Millisecond
	serverRole     = "cadre-exec-server"
	reaperRole     = "cadre-exec-reaper"
	answering      = "answers"
	self           = "/proc/self/exe"
	reasonFD       = 3
	reasonVariable = "CADRE_REASON_FD=3"
	statusFD       = 4
	// of a command that answers: its input and its answer, and the variable that names the descriptor
	// which the answer has in the command.
	inputFD         = 5
	answerFD        = 6
	answerVariable  = "CADRE_ANSWER_FD=4"
	maxMeshFileSize = 1 << 20
)

// Role carries out a role that this program gave itself; ok is false if args name no role.
func Role(args []string) (code int, ok bool) {
	switch {
	case len(args) > 3 && args[0] == serverRole:
		return serve(args[1], args[2], &meshEnv{args[3], args[4:]}), true
	case len(args) > 3 && args[0] == reaperRole:
		return reap(args[1], args[2] == answering, args[3:]), true
	}
	return 0, false
}

// Init is the life of a container: argv is its workload. It returns the exit code.
func Init(cfg Config, argv []string) int {
	if err := becomeSubreaper(); err != nil {
		return fail(exitFailed, err)
	}
	keepDescriptors()
	signals := make(chan os.Signal, 64)
	signal.Notify(signals)
	if sig := awaitReady(cfg.ServiceMesh, signals); sig != 0 {
		return exitSignalBase + int(sig)
	}
	if err := checkMark(cfg); err != nil {
		return fail(exitFailed, err)
	}
	env := &meshEnv{mesh: cfg.ServiceMesh}
	if err := env.take(); err != nil {
		return fail(exitFailed, err)
	}
	as, err := become(cfg.User)
	if err != nil {
		return fail(exitFailed, err)
	}
	out := keepOutput(cfg, as)
	follow(cfg)
	program, err := exec.LookPath(argv[0])
	if err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
			return fail(exitCannotRun, err)
		}
		return fail(exitNotFound, err)
	}
	server, end, err := startServer(cfg, env, as)
	if err != nil {
		return fail(exitFailed, err)
	}
	defer end.Close() //nolint:errcheck // its end is the server's
	w := &workload{env: env, program: program, argv: argv, as: as, files: out.files}
	if err := w.begin(); err != nil {
		return fail(exitCannotRun, err)
	}
	if err := mayEnd(w.pid, as); err != nil {
		return fail(exitFailed, err) // and the workload with its container
	}
	go w.passOn(signals)
	if end != nil {
		go w.takeRestarts(end)
	}
	code := w.reap(server)
	out.drain()
	return code
}

// checkMark runs after admission, by when the agent has written the mark that it found in the
// measured compose text.
func checkMark(cfg Config) error {
	if cfg.Mark == "" {
		return nil
	}
	measured, err := readFile(filepath.Join(cfg.ServiceMesh, "revision-mark"))
	if err != nil {
		return fmt.Errorf("the agent has no revision mark to compare --revision-mark with: give the agent's service the same argument: %w", err)
	}
	if measured != cfg.Mark {
		return fmt.Errorf("this container was made for revision mark %.64q, and this CVM measured %.64q: it is of an earlier revision and runs nothing", cfg.Mark, measured)
	}
	return nil
}

// forThe reports a signal for the workload: all except those about our own children and of Go's
// runtime.
func forThe(s os.Signal) (syscall.Signal, bool) {
	sig, ok := s.(syscall.Signal)
	return sig, ok && sig != syscall.SIGCHLD && sig != syscall.SIGURG && sig != syscall.SIGPIPE
}

// endings are the signals that end a program by default.
var endings = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP}

// stops are the signals that engines end a container with, unless its image names a rarer one.
// SIGHUP is none of them: workloads reload on it.
var stops = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT}

// awaitReady waits for admission; a signal that would end the workload ends the wait.
func awaitReady(mesh string, signals <-chan os.Signal) syscall.Signal {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		if _, err := os.Stat(filepath.Join(mesh, "ready")); err == nil {
			return 0
		}
		select {
		case s := <-signals:
			if sig, ok := forThe(s); ok && slices.Contains(endings, sig) {
				return sig
			}
		case <-tick.C:
		}
	}
}

// startServer starts the server of commands; closing end ends it. The server's restart requests go
// to init.
func startServer(cfg Config, env *meshEnv, as *syscall.Credential) (pid int, end *os.File, err error) {
	info, err := os.Stat(cfg.Commands)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil || !info.IsDir() {
		return 0, nil, fmt.Errorf("%s is not a folder: %w", cfg.Commands, err)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("connect with the server of commands: %w", err)
	}
	r, w := os.NewFile(uintptr(pair[0]), "server"), os.NewFile(uintptr(pair[1]), "init")
	defer r.Close() //nolint:errcheck // the server has it
	argv := append([]string{serverRole, cfg.Commands, strconv.Itoa(cfg.AgentUID), env.mesh}, env.taken...)
	pid, err = syscall.ForkExec(self, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{r.Fd(), 2, 2}, Sys: &syscall.SysProcAttr{Setsid: true, Credential: as}})
	if err != nil {
		return 0, nil, errors.Join(startProblem("the server of commands", err, as), w.Close())
	}
	return pid, w, nil
}

func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return exitSignalBase + int(s.Signal())
	}
	return s.ExitStatus()
}

func fail(code int, err error) int {
	_, _ = fmt.Fprintln(os.Stderr, "cadre-exec:", err)
	return code
}
