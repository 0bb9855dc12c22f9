// Package credcache keeps, in memory-backed storage, what a Boot was given, so that the next
// worker of the same Boot goes on with it and asks nobody. What is kept is sealed under a
// key that follows from the Boot key: another Boot, and whoever else reads the file, can do
// nothing with it, and a file that is not whole is no file.
package credcache
