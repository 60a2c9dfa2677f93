// Package contention measures mutexes over Redis where many want one name: real processes, each with goroutines that
// lock, unlock and lock again. The processes are this program, started once more; [RunWorker] turns it into one.
//
// What is recorded is when each goroutine asked, acquired and released, by CLOCK_MONOTONIC, which all processes of one
// machine share. From that come the figures and the proof of exclusion: a measurement in which two held the name at
// a time fails ([OverlapError]).
//
// Commands are counted where the clients write them to their connections ([Setup.Dial]), and not by the servers: INFO
// counts what a script calls like what a client sends (commandstats and total_commands_processed both, Redis 7.0), and
// MONITOR slows what is measured.
package contention
