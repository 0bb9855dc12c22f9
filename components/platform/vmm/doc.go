// Package vmm drives CVMs on own hosts: one dstack-vmm (0.5.5 to 0.6) is one host, and one Node.
//
// A VMM changes files of a CVM that take effect at its next start, restarts a CVM whose
// process ended, lets two CVMs have one name, and can fail a change after it wrote a part. So:
//
//   - Update takes everything at once, of a CVM with status "stopped" only. The host has noted then that
//     the CVM is not to run, and starts no half-written files. Each part is read back.
//   - Create makes a stopped CVM, finds it by name before and after, confirms it, and starts it. A CVM
//     that a crash left stopped is continued by the same Create, or by a Start.
//   - Create asks every host for names. While one host does not answer, Create is ErrBusy: the
//     host may have a CVM of that name. The way out of a lost host is its removal from the endpoints.
//   - "exited" means that the host will start the CVM again, so it is in progress; it stays down only
//     after the host gave up, or did nothing for ten minutes.
//   - "running" is in progress while the guest reports steps of its boot, for five minutes at most.
//
// Reads are repeated with back-off. Calls with an effect are made once: their error says whether they
// certainly had none (errors.Is platform.ErrRefused) or whether the caller must read back. A VMM
// answers 400 to everything that it does not do, so the driver reads back before it says ErrRefused.
//
// Nothing that this package returns is evidence: it is the host's statement.
package vmm
