import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The JDK's ScheduledThreadPoolExecutor with one thread: {@code java Jdk SIZE}.
 *
 * <p>A binary heap behind a lock. Cancelled tasks are removed at once, as its documentation advises for pools whose
 * tasks are often cancelled; by default they stay until their time comes.
 */
public final class Jdk extends Peer {
    private ScheduledThreadPoolExecutor pool;

    public static void main(String[] arguments) {
        new Jdk().answer(arguments[0]);
    }

    @Override
    void open() {
        pool = new ScheduledThreadPoolExecutor(1);
        pool.setRemoveOnCancelPolicy(true);
        pool.prestartAllCoreThreads();
    }

    @Override
    Object start(long number, long delayMillis) {
        return pool.schedule(new Note(number), delayMillis, TimeUnit.MILLISECONDS);
    }

    @Override
    boolean cancel(Object handle) {
        return ((Future<?>) handle).cancel(false);
    }

    @Override
    void start(Lateness lateness, long due) {
        pool.schedule(new Late(lateness, due), due - System.nanoTime(), TimeUnit.NANOSECONDS);
    }

    @Override
    long pending() {
        return pool.getQueue().size();
    }

    @Override
    boolean close() {
        return pool.shutdownNow().isEmpty();
    }

    /** A task with 32 bytes of payload. It must not run: the executor would keep its exception to itself. */
    private record Note(long a, long b, long c, long d) implements Runnable {
        Note(long number) {
            this(number, number, number, number);
        }

        @Override
        public void run() {
            new IllegalStateException("fired").printStackTrace();
            System.exit(1);
        }
    }

    private record Late(Lateness lateness, long due) implements Runnable {
        @Override
        public void run() {
            lateness.add(System.nanoTime() - due);
        }
    }
}
