import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Queue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * Netty's HashedWheelTimer with ticks of 1 ms: {@code java Netty SLOTS SIZE}.
 *
 * <p>Each line of the input requests one round: {@code pending} for start, churn and stop with SIZE timers pending,
 * {@code fire SECONDS} for the delivery of SIZE timers within that time. The reply is a line per operation, and
 * {@code done}.
 *
 * <p>The caller only puts a timer into a queue, and the timer's own thread links it into the wheel. So the CPU time of
 * all threads until both queues of the timer are empty is measured, beside the time of the caller. Unmeasured rounds
 * come first, for the JIT compiler; the garbage of a round is collected before the next.
 */
public final class Netty {
    private static final long SECOND = 1_000_000_000L;
    private static final int WARM_ROUNDS = 2;
    private static final int WARM_OPERATIONS = 400_000;
    private static final int WARM_DELIVERIES = 100_000;

    private final int slots;
    private final int size;
    private boolean measured;

    private Netty(int slots, int size) {
        this.slots = slots;
        this.size = size;
    }

    public static void main(String[] arguments) {
        try {
            new Netty(Integer.parseInt(arguments[0]), Integer.parseInt(arguments[1])).answer();
            System.exit(0);
        } catch (Exception problem) {
            problem.printStackTrace();
            // The thread of the timer would continue.
            System.exit(1);
        }
    }

    private void answer() throws Exception {
        Cpu.calibrate();
        var input = new BufferedReader(new InputStreamReader(System.in));
        var warm = new HashSet<String>();
        for (var asked = input.readLine(); asked != null; asked = input.readLine()) {
            if (warm.add(asked)) {
                warmUp(asked);
            }
            measured = true;
            round(asked, size);
            System.out.println("done");
            System.out.flush();
        }
    }

    private void warmUp(String asked) throws Exception {
        measured = false;
        boolean fire = asked.startsWith("fire");
        int rounds = fire ? WARM_ROUNDS : Math.max(WARM_ROUNDS, WARM_OPERATIONS / size);
        for (int round = 0; round < rounds; round++) {
            round(asked, fire ? Math.min(size, WARM_DELIVERIES) : size);
        }
    }

    private void round(String asked, int size) throws Exception {
        System.gc();
        var words = asked.split(" ");
        switch (words[0]) {
            case "pending" -> pending(size);
            case "fire" -> fire(size, Long.parseLong(words[1]) * SECOND);
            default -> throw new IllegalArgumentException(asked);
        }
    }

    private HashedWheelTimer timer() {
        var timer = new HashedWheelTimer(Executors.defaultThreadFactory(), 1, TimeUnit.MILLISECONDS, slots);
        timer.start();
        return timer;
    }

    private void pending(int size) throws Exception {
        var timer = timer();
        var queues = new Queues(timer);
        var random = new SplitMix(1);
        var timeouts = new Timeout[size];

        var watch = new Watch();
        for (int i = 0; i < size; i++) {
            timeouts[i] = timer.newTimeout(new Note(i), random.delay(size), TimeUnit.MILLISECONDS);
        }
        watch.returned();
        queues.drained();
        watch.print("start", size, measured);
        check(timer.pendingTimeouts() == size, "pending after start");

        int cancelled = 0;
        watch = new Watch();
        for (int i = 0; i < size; i++) {
            var fresh = timer.newTimeout(new Note(i), random.delay(size), TimeUnit.MILLISECONDS);
            int place = random.below(size);
            var old = timeouts[place];
            timeouts[place] = fresh;
            if (old.cancel()) {
                cancelled++;
            }
        }
        watch.returned();
        queues.drained();
        watch.print("churn", size, measured);
        check(cancelled == size, "cancelled in churn");

        random.shuffle(timeouts);
        cancelled = 0;
        watch = new Watch();
        for (var timeout : timeouts) {
            if (timeout.cancel()) {
                cancelled++;
            }
        }
        watch.returned();
        queues.drained();
        watch.print("stop", size, measured);
        check(cancelled == size, "cancelled in stop");
        // Not pendingTimeouts(): it counts a timeout twice that is cancelled while its bucket is scanned.
        check(timer.stop().isEmpty(), "left after stop");
    }

    private void fire(int size, long span) throws Exception {
        var timer = timer();
        var random = new SplitMix(1);
        var lateness = new Lateness(size);

        long before = Cpu.read();
        // All are scheduled before the first is due.
        long begin = System.nanoTime() + SECOND / 2 + 5_000L * size;
        for (int i = 0; i < size; i++) {
            long due = begin + random.below(span);
            timer.newTimeout(new Late(lateness, due), due - System.nanoTime(), TimeUnit.NANOSECONDS);
        }
        check(System.nanoTime() < begin, "scheduled in time");
        long scheduled = Cpu.read();
        lateness.complete.await();
        double after = Cpu.since(scheduled) / 1e9;
        double all = Cpu.since(before) / 1e9;

        check(timer.stop().isEmpty(), "left after fire");
        if (measured) {
            System.out.printf("fire %s cpu_after_s=%.4f cpu_all_s=%.4f%n", lateness.summary(), after, all);
        }
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException("wrong number: " + what);
        }
    }

    /** A task with 32 bytes of payload, which must not expire. */
    private record Note(long a, long b, long c, long d) implements TimerTask {
        Note(long number) {
            this(number, number, number, number);
        }

        @Override
        public void run(Timeout timeout) {
            throw new IllegalStateException("fired");
        }
    }

    private record Late(Lateness lateness, long due) implements TimerTask {
        @Override
        public void run(Timeout timeout) {
            lateness.add(System.nanoTime() - due);
        }
    }

    /** Written by the thread of the timer only. */
    private static final class Lateness {
        final CountDownLatch complete = new CountDownLatch(1);
        private final long[] nanos;
        private int received;

        Lateness(int size) {
            nanos = new long[size];
        }

        void add(long late) {
            nanos[received++] = late;
            if (received == nanos.length) {
                complete.countDown();
            }
        }

        String summary() {
            Arrays.sort(nanos);
            long early = Arrays.stream(nanos).takeWhile(late -> late < 0).count();
            return "p50_ms=%.4f p99_ms=%.4f p999_ms=%.4f max_ms=%.4f early=%d".formatted(
                    quantile(0.5), quantile(0.99), quantile(0.999), quantile(1), early);
        }

        private double quantile(double share) {
            return nanos[(int) Math.round((nanos.length - 1) * share)] / 1e6;
        }
    }

    /** The queues between the callers and the thread of the timer, which are private in Netty. */
    private static final class Queues {
        private final Queue<?> started;
        private final Queue<?> cancelled;

        Queues(HashedWheelTimer timer) throws ReflectiveOperationException {
            started = queue(timer, "timeouts");
            cancelled = queue(timer, "cancelledTimeouts");
        }

        private static Queue<?> queue(HashedWheelTimer timer, String name) throws ReflectiveOperationException {
            Field field = HashedWheelTimer.class.getDeclaredField(name);
            field.setAccessible(true);
            return (Queue<?>) field.get(timer);
        }

        void drained() throws InterruptedException {
            do {
                Thread.sleep(2);
            } while (!started.isEmpty() || !cancelled.isEmpty());
            // The last removed timeout is still being linked or unlinked.
            Thread.sleep(2);
        }
    }

    /** Elapsed time until the caller's calls have returned, and CPU time of all threads until now. */
    private static final class Watch {
        private final long cpu = Cpu.read();
        private final long begin = System.nanoTime();
        private long wall;

        void returned() {
            wall = System.nanoTime() - begin;
        }

        void print(String operation, int size, boolean measured) {
            double used = Cpu.since(cpu);
            if (measured) {
                System.out.printf("%s wall_ns=%.2f cpu_ns=%.2f%n", operation, wall / (double) size, used / size);
            }
        }
    }

    /**
     * CPU time of all threads of this process, in nanoseconds. A thread's time is up to date after it has slept, so
     * the caller sleeps briefly. (The beans of the virtual machine count in steps of 10 ms.)
     */
    private static final class Cpu {
        /** The cost of a reading. */
        private static long cost;

        static void calibrate() {
            long least = Long.MAX_VALUE;
            for (int i = 0; i < 200; i++) {
                least = Math.min(least, since(read()));
            }
            cost = least;
        }

        static long since(long before) {
            return read() - before - cost;
        }

        static long read() {
            try {
                Thread.sleep(1);
            } catch (InterruptedException interrupted) {
                throw new IllegalStateException(interrupted);
            }
            long sum = 0;
            for (var thread : new File("/proc/self/task").list()) {
                try {
                    var text = Files.readString(new File("/proc/self/task", thread + "/schedstat").toPath());
                    sum += Long.parseLong(text.substring(0, text.indexOf(' ')));
                } catch (IOException ended) {
                    // The thread ended between the listing and the reading.
                }
            }
            return sum;
        }
    }

    private static final class SplitMix {
        private long state;

        SplitMix(long seed) {
            state = seed;
        }

        long next() {
            state += 0x9e3779b97f4a7c15L;
            long mixed = state;
            mixed = (mixed ^ (mixed >>> 30)) * 0xbf58476d1ce4e5b9L;
            mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
            return mixed ^ (mixed >>> 31);
        }

        long below(long bound) {
            return Math.multiplyHigh(next() >>> 1, bound << 1);
        }

        int below(int bound) {
            return (int) below((long) bound);
        }

        /**
         * Returns 10 s to 1 h in milliseconds; with many timers somewhat more, so that none is due before its cancel.
         */
        long delay(int size) {
            return 10_000 + size / 10 + below(3_590_000L);
        }

        void shuffle(Object[] items) {
            for (int last = items.length - 1; last > 0; last--) {
                int other = below(last + 1);
                var item = items[last];
                items[last] = items[other];
                items[other] = item;
            }
        }
    }
}
