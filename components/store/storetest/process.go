package storetest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// guard runs a command that ends when its standard input ends, and then removes the directory. A
// command that exits on its own leaves its log. The test binary holds the other end of the pipe, so
// the server ends with it even after a crash or a kill.
const guard = `dir=$1; shift
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
trap 'kill -KILL "$child" 2>/dev/null' HUP INT TERM
{ read -r _ <&3; kill -KILL "$child"; } 2>/dev/null &
wait "$child" 2>/dev/null
code=$?
[ "$code" -eq 137 ] || exit "$code"
rm -rf "$dir"
rmdir "$(dirname "$dir")" 2>/dev/null
exit 0`

// process is a guarded child.
type process struct {
	log   string
	stdin io.Closer
	// exited closes when the guard has ended.
	exited chan struct{}
	once   sync.Once
}

func start(ctx context.Context, dir string, command ...string) (*process, error) {
	p := &process{log: filepath.Join(dir, "log"), exited: make(chan struct{})}
	output, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", guard, "guard", dir}, command...)...)
	cmd.Stdout, cmd.Stderr = output, output
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait()
	}()
	return p, nil
}

// stop ends the child and waits for it.
func (p *process) stop() {
	p.once.Do(func() { _ = p.stdin.Close() })
	<-p.exited
}

// tail is the end of the child's output.
func (p *process) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4096):])
}
