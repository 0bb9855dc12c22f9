package cvminit

import (
	"fmt"
	"os"
	"sync"
)

const maxLog = 10 << 20

// logFile appends to a file and moves it to <path>.1 when it grows past maxLog.
type logFile struct {
	path string

	mu   sync.Mutex
	f    *os.File
	size int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write never fails a service because of its log: text that cannot be written is lost.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxLog && l.size > 0 {
		l.f.Close()
		if os.Rename(l.path, l.path+".1") != nil || l.open() != nil {
			return len(p), nil
		}
	}
	n, _ := l.f.Write(p)
	l.size += int64(n)
	return len(p), nil
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Close()
}
