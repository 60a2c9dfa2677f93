// Package contention measures mutexes over Redis under contention for one name: real processes,
// each with goroutines that lock, unlock and lock again. The processes run this same program;
// [Play] turns it into a worker.
//
// Each goroutine records when it asked, acquired and released, by CLOCK_MONOTONIC, which all
// processes of one machine share. The figures follow from that, and so does the proof of exclusion:
// a measurement in which two held the name at once fails, as the judge of package history says.
//
// Commands are counted where the clients write them to their connections ([Setup.Dial]), not by the
// servers. INFO counts what a script calls like what a client sends (commandstats and
// total_commands_processed both, Redis 7.0), and MONITOR slows what is measured.
package contention
