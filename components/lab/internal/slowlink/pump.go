package slowlink

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// early is how long before its time a frame may leave: frames that are due at
	// almost the same time leave with one wake-up.
	early = 150 * time.Microsecond
	// batch bounds reads in a row, so that the other direction is served too.
	batch = 64
)

// pump moves the frames of one link. Only its goroutine touches dirs.
type pump struct {
	fds  [2]int // TUNs; dirs[i] goes from fds[i] to fds[1-i]
	wake int    // eventfd: something is in orders
	dirs [2]direction

	orders chan func() // run by the pump's goroutine
	stop   atomic.Bool
	done   chan struct{}
}

// newPump takes over both descriptors.
func newPump(a, b int, p Params, seed uint64) (*pump, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	u := &pump{fds: [2]int{a, b}, wake: wake, orders: make(chan func(), 1), done: make(chan struct{})}
	for i := range u.dirs {
		u.dirs[i].line = newLine(p, seed+uint64(i))
	}
	go u.run()
	return u, nil
}

// do runs f between two rounds of the pump; false when it has ended.
func (u *pump) do(f func()) bool {
	done := make(chan struct{})
	select {
	case u.orders <- func() { f(); close(done) }:
	case <-u.done:
		return false
	}
	u.kick()
	select {
	case <-done:
		return true
	case <-u.done:
		return false
	}
}

func (u *pump) kick() {
	one := [8]byte{1}
	_, _ = unix.Write(u.wake, one[:])
}

// close ends the pump and closes both TUNs; packets that are underway are lost.
func (u *pump) close() {
	u.stop.Store(true)
	u.kick()
	<-u.done
	_ = unix.Close(u.wake)
}

func (u *pump) run() {
	runtime.LockOSThread() // for the two settings below, which are the thread's; ends with it
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -15)
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	defer close(u.done)
	defer func() {
		for _, fd := range u.fds {
			_ = unix.Close(fd)
		}
	}()
	scratch := make([]byte, maxFrame)
	polls := []unix.PollFd{{Events: unix.POLLIN}, {Events: unix.POLLIN}, {Events: unix.POLLIN}}
	for !u.stop.Load() {
		now := nanotime()
		wait := int64(-1)
		for i := range u.dirs {
			d := &u.dirs[i]
			at, ok := d.next()
			for ; ok && at <= now+int64(early); at, ok = d.next() {
				d.write(u.fds[1-i])
			}
			if left := at - now - int64(early); ok && (wait < 0 || left < wait) {
				wait = left
			}
		}
		var timeout *unix.Timespec
		if wait >= 0 {
			ts := unix.NsecToTimespec(wait)
			timeout = &ts
		}
		polls[0].Fd, polls[1].Fd, polls[2].Fd = int32(u.fds[0]), int32(u.fds[1]), int32(u.wake)
		n, err := unix.Ppoll(polls, timeout, nil)
		if err != nil && err != unix.EINTR {
			return
		}
		if n <= 0 {
			continue
		}
		now = nanotime()
		for i := range u.dirs {
			if polls[i].Revents&unix.POLLIN != 0 {
				u.dirs[i].read(now, u.fds[i], scratch)
			}
			if polls[i].Revents&(unix.POLLERR|unix.POLLNVAL) != 0 {
				return // the interface is gone
			}
		}
		if polls[2].Revents != 0 {
			var eight [8]byte
			_, _ = unix.Read(u.wake, eight[:])
			select {
			case f := <-u.orders:
				f()
			default:
			}
		}
	}
}

func (d *direction) read(now int64, fd int, scratch []byte) {
	for range batch {
		n, err := unix.Read(fd, scratch)
		if err != nil || n <= vnetLen {
			return // empty, or down
		}
		d.stats.Reads++
		d.offer(now, scratch[:n])
	}
}

func (d *direction) write(fd int) {
	frame := d.take()
	if _, err := unix.Write(fd, frame); err != nil {
		d.stats.Unwritten++
	} else {
		d.stats.Writes++
	}
	d.recycle(frame)
}

func nanotime() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
